#include <algorithm>

#include "store/cursor/tail_impl.h"
#include "store/database/commit_wait.h"

namespace topicdb {

TailImpl::TailImpl(std::shared_ptr<DatabaseImpl> database, std::vector<Filter> filters,
                   const TailOptions& options, GivenByShard given, MissingReasons left_out)
    : database_(std::move(database)),
      filters_(std::move(filters)),
      left_out_(std::move(left_out)),
      until_(options.until),
      given_(std::move(given)),
      serials_(options.after) {
  for (const auto& shard : database_->shards().All()) {
    shards_.insert(shard->index());
    serials_.try_emplace(shard->index());
  }
  database_->Register(this);
}

TailImpl::~TailImpl() { Close(); }

void TailImpl::Close() {
  const ReaderLock in_use(database_->lifecycle());
  Release();
  database_->Unregister(this);
}

void TailImpl::Release() {
  const MutexLock lock(mutex_);
  closed_ = true;
  cursors_.clear();
}

std::map<std::uint32_t, Serial> TailImpl::serials() const {
  const MutexLock lock(mutex_);
  return serials_;
}

Result<std::shared_ptr<const Batch>> TailImpl::Next(
    const PageLimits& limits, std::optional<std::chrono::microseconds> timeout,
    const InterruptCheck& interrupted) {
  std::shared_ptr<const Batch> batch;
  const auto look = [&] { return Poll(limits, interrupted, &batch); };
  TOPICDB_RETURN_IF_ERROR(LookUntil(database_, timeout, interrupted, look));
  return batch;
}

Result<bool> TailImpl::Poll(const PageLimits& limits, const InterruptCheck& interrupted,
                            std::shared_ptr<const Batch>* found) {
  TOPICDB_ENTER(database_);
  std::vector<std::shared_ptr<Shard>> shards = database_->shards().All();
  std::erase_if(shards, [this](const auto& shard) { return !shards_.contains(shard->index()); });
  const MutexLock lock(mutex_);
  if (closed_) return Closed("this tail is closed");
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto& shard = shards[(next_shard_ + i) % shards.size()];
    const std::uint32_t index = shard->index();
    LogCursor& cursor = CursorOf(index);
    auto batch = std::make_shared<Batch>(limits.with_serials);
    TOPICDB_RETURN_IF_ERROR(cursor.ReadCommits(shard, limits, interrupted, batch.get()));
    Serial& serial = serials_[index];
    serial = std::max(serial, cursor.place().serial.Previous());
    if (batch->empty()) continue;
    next_shard_ = static_cast<std::uint32_t>((next_shard_ + i + 1) % shards.size());
    *found = std::move(batch);
    return true;
  }
  return IsDone();
}

LogCursor& TailImpl::CursorOf(std::uint32_t shard) {
  const auto found = cursors_.find(shard);
  if (found != cursors_.end()) return found->second;
  LogQuery query;
  query.filters = filters_;
  query.from = BehindCommit(serials_[shard]);
  query.until = UntilOf(shard);
  if (const auto given = given_.find(shard); given != given_.end()) query.given = given->second;
  return cursors_.try_emplace(shard, std::move(query)).first->second;
}

Serial TailImpl::UntilOf(std::uint32_t shard) const { return SerialOf(until_, shard, kLastSerial); }

bool TailImpl::IsDone() const {
  for (const auto& [shard, cursor] : cursors_) {
    if (!until_.contains(shard) || serials_.at(shard) < UntilOf(shard)) return false;
  }
  return true;
}

Tail::Tail(std::shared_ptr<TailImpl> impl) : impl_(std::move(impl)) {}

Tail::~Tail() {
  // In a forked child the locks may be in any state, and RocksDB must not be touched: leave it.
  if (impl_->Forked()) new std::shared_ptr<TailImpl>(std::move(impl_));
}

Result<std::shared_ptr<const Batch>> Tail::Next(const PageLimits& limits,
                                                std::optional<std::chrono::microseconds> timeout,
                                                const InterruptCheck& interrupted) {
  return impl_->Next(limits, timeout, interrupted);
}

std::map<std::uint32_t, Serial> Tail::serials() const { return impl_->serials(); }

const std::set<std::uint32_t>& Tail::shards() const { return impl_->shards(); }

const MissingReasons& Tail::missing_shards() const { return impl_->left_out(); }

void Tail::Close() {
  if (!impl_->Forked()) impl_->Close();
}

}  // namespace topicdb
