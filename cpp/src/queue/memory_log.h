// A log in memory. It keeps the items of each append together, as a batch.
#pragma once

#include <atomic>
#include <deque>
#include <string>

#include "base/thread/mutex.h"
#include "queue/queue_log.h"

namespace topicdb {

// The items of one append. Immutable.
struct MemoryBatch {
  Block block;  // offset and end_offset count as LogCount::bytes, from the beginning of the log
  std::uint64_t items_before = 0;
  std::unique_ptr<char[]> bytes;
};

// A QueueLog in memory. Thread-safe.
class MemoryLog : public QueueLog {
 public:
  explicit MemoryLog(std::uint64_t next_sequence) : next_sequence_(next_sequence) {}

  Result<std::uint64_t> Append(const WeighedItems& items, bool through) override
      TOPICDB_EXCLUDES(mutex_);
  std::uint64_t begin_sequence() const override TOPICDB_EXCLUDES(mutex_);
  std::uint64_t free_at() const override { return free_at_.load(std::memory_order_acquire); }
  std::uint64_t end_sequence() const override TOPICDB_EXCLUDES(mutex_);
  LogCount end_count() const override TOPICDB_EXCLUDES(mutex_);
  std::unique_ptr<QueueLogReader> NewReader() override;
  Status FreeBefore(std::uint64_t sequence) override TOPICDB_EXCLUDES(mutex_);
  std::uint64_t ItemBytes(std::string_view item) const override;

  // Returns the first batch with an item of this number or a greater one, or null if there is none.
  std::shared_ptr<const MemoryBatch> Find(std::uint64_t sequence) const TOPICDB_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::deque<std::shared_ptr<const MemoryBatch>> batches_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t next_sequence_ TOPICDB_GUARDED_BY(mutex_);
  LogCount end_ TOPICDB_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> free_at_{UINT64_MAX};  // the end of the first batch
};

}  // namespace topicdb
