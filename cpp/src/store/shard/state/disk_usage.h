// How much of the disk a shard takes.
#pragma once

#include <atomic>
#include <cstdint>

#include "store/shard/state/shard_state.h"

namespace topicdb {

// Measures the files of a shard, or estimates them where measuring each time would cost too much. A
// Shard owns it. Thread-safe.
class DiskUsage {
 public:
  explicit DiskUsage(const ShardState& shard) : shard_(shard) {}

  // Returns the bytes of all files and of the log. Measures them at most once a second, and adds
  // what was written since then.
  std::uint64_t Bytes() const;
  // Returns the bytes of all files, measured now.
  std::uint64_t Measure() const;
  // Returns the bytes of one family.
  std::uint64_t OfFamily(rocksdb::ColumnFamilyHandle* family) const;

  // Tells it that a commit has written this many bytes.
  void NoteWritten(std::uint64_t bytes) { written_bytes_ += bytes; }
  // Has the next call of Bytes measure: files have gone.
  void Expire() { measured_at_us_ = 0; }

 private:
  const ShardState& shard_;
  mutable std::atomic<std::int64_t> measured_at_us_{0};
  mutable std::atomic<std::uint64_t> measured_bytes_{0};
  mutable std::atomic<std::uint64_t> written_bytes_{0};  // since then
};

}  // namespace topicdb
