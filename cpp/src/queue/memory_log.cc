#include "queue/memory_log.h"

#include <algorithm>

namespace topicdb {

namespace {

// The header of a batch counts as that of a frame on disk does, so that a queue is as large in
// memory as it will be there.
constexpr std::uint64_t kBatchBytes = 32;

// Reads the batches of a log in memory. Nothing of it can be lost. Not thread-safe.
class MemoryLogReader : public QueueLogReader {
 public:
  explicit MemoryLogReader(const MemoryLog* log) : log_(*log) {}

  Result<ReadEvent> Load(const LogPosition& position) override {
    const std::uint64_t wanted = position.sequence;
    const bool current = batch_ != nullptr && batch_->block.first_sequence <= wanted &&
                         wanted < batch_->block.end_sequence();
    if (!current) owner_ = batch_ = log_.Find(wanted);
    return batch_ == nullptr ? ReadEvent::kEnd : ReadEvent::kBlock;
  }

  const Block& block() const override { return batch_->block; }
  const std::shared_ptr<const void>& owner() const override { return owner_; }
  std::uint64_t segment() const override { return 0; }
  LogCount count_before() const override { return {batch_->block.offset, batch_->items_before}; }
  const LogDamage& lost() const override { return nothing_; }

 private:
  const MemoryLog& log_;
  std::shared_ptr<const MemoryBatch> batch_;
  std::shared_ptr<const void> owner_;  // the same batch
  const LogDamage nothing_;
};

}  // namespace

std::uint64_t MemoryLog::ItemBytes(std::string_view item) const {
  return NativeSegmentFormat().ItemBytes(item);
}

Result<std::uint64_t> MemoryLog::Append(const WeighedItems& appended, bool /*through*/) {
  const std::span<const std::string_view> items = appended.items;
  auto batch = std::make_shared<MemoryBatch>();
  batch->block.weights.assign(appended.weights.begin(), appended.weights.end());
  std::size_t size = 0;
  std::uint64_t stored = kBatchBytes;
  for (const std::string_view item : items) {
    size += item.size();
    stored += ItemBytes(item);
  }
  if (!appended.weights.empty()) stored = appended.Weight();
  batch->bytes = std::make_unique_for_overwrite<char[]>(size);
  batch->block.items.reserve(items.size());
  char* next = batch->bytes.get();
  for (const std::string_view item : items) {
    item.copy(next, item.size());
    batch->block.items.emplace_back(next, item.size());
    next += item.size();
  }
  const MutexLock lock(mutex_);
  batch->block.first_sequence = next_sequence_;
  batch->block.offset = end_.bytes;
  batch->block.end_offset = end_.bytes + stored;
  batch->items_before = end_.items;
  next_sequence_ += items.size();
  end_.bytes += stored;
  end_.items += items.size();
  const std::uint64_t first = batch->block.first_sequence;
  if (batches_.empty()) free_at_.store(batch->block.end_sequence(), std::memory_order_release);
  batches_.push_back(std::move(batch));
  return first;
}

std::uint64_t MemoryLog::begin_sequence() const {
  const MutexLock lock(mutex_);
  return batches_.empty() ? next_sequence_ : batches_.front()->block.first_sequence;
}

std::uint64_t MemoryLog::end_sequence() const {
  const MutexLock lock(mutex_);
  return next_sequence_;
}

LogCount MemoryLog::end_count() const {
  const MutexLock lock(mutex_);
  return end_;
}

std::unique_ptr<QueueLogReader> MemoryLog::NewReader() {
  return std::make_unique<MemoryLogReader>(this);
}

Status MemoryLog::FreeBefore(std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  while (!batches_.empty() && batches_.front()->block.end_sequence() <= sequence) {
    batches_.pop_front();
  }
  free_at_.store(batches_.empty() ? UINT64_MAX : batches_.front()->block.end_sequence(),
                 std::memory_order_release);
  return Status::Ok();
}

std::shared_ptr<const MemoryBatch> MemoryLog::Find(std::uint64_t sequence) const {
  const MutexLock lock(mutex_);
  // Usually it is the first batch, since those before it were freed.
  if (!batches_.empty() && sequence < batches_.front()->block.end_sequence()) {
    return batches_.front();
  }
  const auto found = std::upper_bound(
      batches_.begin(), batches_.end(), sequence,
      [](std::uint64_t wanted, const auto& batch) { return wanted < batch->block.end_sequence(); });
  return found == batches_.end() ? nullptr : *found;
}

}  // namespace topicdb
