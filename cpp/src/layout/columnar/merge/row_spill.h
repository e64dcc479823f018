// Keeps rows in temporary files until a merge needs them, in partitions by their keys.
//
// If the rows of a merge overlap so much that they exceed its memory, the merge puts later rows
// here. The spill writes a row once, to the partition that its key falls into. It reads partitions
// back one after the other, each as a whole. So every page is decoded once, however much overlaps.
// This is a distribution sort: Knuth, The Art of Computer Programming, volume 3, section 5.2.5.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory/memory_pool.h"
#include "layout/columnar/format/page.h"
#include "layout/columnar/merge/row_sort.h"
#include "layout/columnar/merge/spill_lane.h"
#include "topicdb/status.h"

namespace topicdb::columnar {

// Says by what a merge orders rows.
enum class MergeOrder {
  kTime,    // timestamp, serial, index
  kSerial,  // serial, index: as committed
};
// Returns the key of a row of a page.
RowKey KeyOf(MergeOrder order, const Page& page, std::uint32_t row);

// Spills the rows of one merge, of one salvage, or of one step of sealing, which owns it. Not
// thread-safe. Of each partition and lane, less than a chunk of rows stays in memory. A chunk has
// about 64 KiB at most, unless a row is larger.
//
// Add, Prepare and Take return kStorage if a temporary file cannot be written or read.
class RowSpill {
 public:
  // Bounds the memory: a partition has a chunk of memory for each lane.
  static constexpr std::size_t kPartitionsMax = 384;

  // `bounds` says where partitions begin, ascending. One more partition takes the rows before the
  // first bound. Files are in `directory`, or in the system's directory for temporary files if
  // nothing can be written there. A partition that takes more than `bytes_max` in memory is divided
  // when its turn comes.
  RowSpill(const std::string& directory, MergeOrder order, const std::vector<RowKey>& bounds,
           std::size_t bytes_max);

  // Returns the memory that rows take once they are read back. `bytes` counts topics and values.
  static std::size_t MemoryOf(std::size_t rows, std::size_t bytes);

  // Adds a row, and copies it. REQUIRES (Add): no key is before the end of a partition that was
  // taken
  Status Add(const RowKey& key, const Page& page, std::uint32_t row);
  Status Add(const RowKey& key, const PackedRow& row);
  // Rows of a page, by their numbers in the page. Their slots have no meaning here.
  struct PageRows {
    std::shared_ptr<const Page> page;
    std::vector<MergedRow> rows;
  };
  // Adds all rows. Works on several processors if the rows are many.
  Status Add(std::span<const PageRows> pages);
  // Returns true if all partitions were taken.
  bool is_finished() const { return partitions_.empty(); }
  // Returns where the next partition begins. It has no key before that.
  // REQUIRES (Begin, End, NextBytesMax, Prepare, Take): !is_finished()
  RowKey Begin() const { return partitions_.front().begin; }
  // Returns where the next partition ends, or nothing if it is the last one.
  std::optional<RowKey> End() const { return EndOf(1); }
  // Returns where the next `count` partitions end, or nothing if there are no others behind them.
  std::optional<RowKey> EndOf(std::size_t count) const;
  // Returns an upper bound of the memory that the next partition takes, once Prepare has divided it
  // and Take has read it. Rows of one key may take more, because nothing divides them.
  std::size_t NextBytesMax() const { return std::min(partitions_.front().memory(), bytes_max_); }
  // Divides the next partition if it is too large and has rows of several keys. Then End() changes.
  Status Prepare();
  // Writes all rows that are still in memory to the files. A spill that no row is added to any more
  // keeps no memory then.
  Status WriteStaged();
  // Returns the memory of the rows that are not written yet.
  std::size_t staged_bytes() const;
  // Removes the next partition, and returns pages that have all rows that were added to it, and no
  // others.
  Result<std::vector<std::shared_ptr<const Page>>> Take();

  // Return how much was written to the files so far, including rows that were written again.
  std::uint64_t rows_written() const;
  std::uint64_t bytes_written() const;

 private:
  // The rows with keys from `begin` on and before the next partition.
  struct Partition {
    RowKey begin;
    std::vector<SpillPart> parts;  // one part for each lane

    // Returns the memory that the rows take once they are read back.
    std::size_t memory() const;
    std::uint64_t rows() const;
    // Returns a sample of the keys of all parts, ascending.
    std::vector<RowKey> SortedSample() const;
  };

  Partition NewPartition(const RowKey& begin) const {
    return {begin, std::vector<SpillPart>(lanes_.size())};
  }
  // Returns true if the key falls into the partition.
  bool IsIn(std::size_t partition, const RowKey& key) const;
  // Returns the partition of a key. Looks at the partition `likely` first.
  std::size_t PartitionOf(const RowKey& key, std::size_t likely) const;
  // Adds all rows to one lane. Several threads may call it at once, each for a lane of its own.
  Status Add(std::span<const PageRows> pages, std::size_t lane);

  // One partition is read while the one before is in use.
  static constexpr std::size_t kMemoryPieces = 2;

  const MergeOrder order_;
  const std::size_t bytes_max_;
  std::deque<SpillLane> lanes_;
  MemoryPool memory_{kMemoryPieces};
  std::deque<Partition> partitions_;  // that were not taken yet, ascending
};

}  // namespace topicdb::columnar
