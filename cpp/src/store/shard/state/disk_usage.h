// Measures how much of the disk a shard takes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "store/shard/state/shard_state.h"

namespace topicdb {

// Measures the files of a shard, or estimates them where measuring each time would cost too much. A
// Shard owns it. Thread-safe.
class DiskUsage {
 public:
  explicit DiskUsage(const ShardState& shard) : shard_(shard) {}

  // Returns what Measure returns, but measures at most once a second, and adds the bytes that were
  // written since then.
  std::uint64_t Bytes() const;
  // Returns the bytes of all families, measured now.
  std::uint64_t Measure() const;
  // Returns the bytes that a family has in files, and those that it will write from memory.
  std::uint64_t OfFamily(rocksdb::ColumnFamilyHandle* family) const;

  // Counts bytes that a commit has written.
  void NoteWritten(std::uint64_t bytes) { written_bytes_ += bytes; }
  // Makes the next call of Bytes measure, because files were removed.
  void Expire() { measured_at_ = Clock::time_point(); }

 private:
  using Clock = std::chrono::steady_clock;

  const ShardState& shard_;
  mutable std::atomic<Clock::time_point> measured_at_{};  // zero: Bytes has to measure
  mutable std::atomic<std::uint64_t> measured_bytes_{0};
  mutable std::atomic<std::uint64_t> written_bytes_{0};  // since then
};

}  // namespace topicdb
