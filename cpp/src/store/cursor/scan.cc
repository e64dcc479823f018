#include "store/cursor/scan_impl.h"

namespace topicdb {

ScanImpl::ScanImpl(std::shared_ptr<DatabaseImpl> database, std::vector<ShardMoment> moments,
                   std::unique_ptr<MessageSource> source, MissingReasons left_out)
    : database_(std::move(database)),
      left_out_(std::move(left_out)),
      moments_(std::move(moments)),
      source_(std::move(source)) {
  database_->Register(this);
}

ScanImpl::~ScanImpl() { Close(); }

void ScanImpl::Close() {
  const ReaderLock in_use(database_->lifecycle());
  Release();
  database_->Unregister(this);
}

void ScanImpl::Release() {
  const MutexLock lock(mutex_);
  source_.reset();
  moments_.clear();
}

ReadCounters ScanImpl::Counters() {
  const MutexLock lock(mutex_);
  return source_ == nullptr ? ReadCounters() : source_->counters();
}

template <typename Read, typename HasSome>
Result<bool> ScanImpl::ReadSome(Read read, HasSome has_some, const InterruptCheck& interrupted) {
  TOPICDB_RETURN_IF_ERROR(database_->CheckUsable());
  const ReaderLock in_use(database_->lifecycle());
  TOPICDB_RETURN_IF_ERROR(database_->CheckUsable());
  const MutexLock lock(mutex_);
  if (source_ == nullptr) return Closed("this scan is closed");
  TOPICDB_RETURN_IF_ERROR(failure_);
  while (true) {
    const Result<ReadOutcome> outcome = read(source_.get());
    failure_ = outcome.status();
    TOPICDB_RETURN_IF_ERROR(failure_);
    if (has_some()) return true;
    if (*outcome == ReadOutcome::kExhausted) return false;
    if (interrupted && interrupted()) return Interrupted();
  }
}

Result<std::shared_ptr<const Batch>> ScanImpl::Next(const PageLimits& limits,
                                                    const InterruptCheck& interrupted) {
  auto batch = std::make_shared<Batch>(limits.with_serials);
  const ReadLimits room{limits.rows_max, limits.bytes_max, kExaminedMax};
  const auto read = [&](MessageSource* source) { return source->Read(room, batch.get()); };
  const auto has_some = [&] { return !batch->empty(); };
  TOPICDB_ASSIGN_OR_RETURN(const bool found, ReadSome(read, has_some, interrupted));
  return found ? std::shared_ptr<const Batch>(std::move(batch)) : std::shared_ptr<const Batch>();
}

Result<std::shared_ptr<const Parcel>> ScanImpl::NextParcel(std::size_t bytes_max,
                                                           const InterruptCheck& interrupted) {
  ParcelBuilder parcel;
  const ReadLimits room{kExaminedMax, bytes_max, kExaminedMax};
  const auto read = [&](MessageSource* source) { return source->ReadParcel(room, &parcel); };
  const auto has_some = [&] { return parcel.messages() > 0; };
  TOPICDB_ASSIGN_OR_RETURN(const bool found, ReadSome(read, has_some, interrupted));
  if (!found) return std::shared_ptr<const Parcel>();
  return std::shared_ptr<const Parcel>(std::make_shared<Parcel>(parcel.Take()));
}

Scan::Scan(std::shared_ptr<ScanImpl> impl) : impl_(std::move(impl)) {}

Scan::~Scan() {
  // In a forked child the locks may be in any state, and RocksDB must not be touched: leave it.
  if (impl_->Forked()) new std::shared_ptr<ScanImpl>(std::move(impl_));
}

Result<std::shared_ptr<const Batch>> Scan::Next(const PageLimits& limits,
                                                const InterruptCheck& interrupted) {
  return impl_->Next(limits, interrupted);
}

Result<std::shared_ptr<const Parcel>> Scan::NextParcel(std::size_t bytes_max,
                                                       const InterruptCheck& interrupted) {
  return impl_->NextParcel(bytes_max, interrupted);
}

const MissingReasons& Scan::missing_shards() const { return impl_->left_out(); }

ReadCounters Scan::counters() const { return impl_->Forked() ? ReadCounters() : impl_->Counters(); }

void Scan::Close() {
  if (!impl_->Forked()) impl_->Close();
}

}  // namespace topicdb
