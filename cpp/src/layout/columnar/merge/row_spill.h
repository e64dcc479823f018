// Rows that wait in temporary files, in partitions by their keys.
//
// A merge whose rows overlap so much that they exceed its memory puts here what comes later: a row
// is written once to the partition that its key falls into, and partitions are read back one after
// the other, each whole. So every page is decoded once, whatever overlaps. This is a distribution
// sort: Knuth, The Art of Computer Programming, volume 3, section 5.2.5.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layout/columnar/format/page.h"
#include "layout/columnar/merge/row_sort.h"
#include "layout/columnar/merge/spill_lane.h"
#include "topicdb/status.h"

namespace topicdb::columnar {

// How the rows of a page are ordered.
enum class MergeOrder {
  kTime,    // timestamp, serial, index
  kSerial,  // serial, index: as committed
};
RowKey KeyOf(MergeOrder order, const Page& page, std::uint32_t row);

// Owned by one merge; not thread-safe. A part of a partition that is smaller than a chunk, at most
// 64 KiB, stays in memory.
class RowSpill {
 public:
  // Partitions have a chunk of memory for each lane.
  static constexpr std::size_t kPartitionsMax = 192;

  // bounds: where partitions begin, ascending; the first one also takes what is before. Files are
  // in `directory`, or, if nothing can be written there, where the system has temporary files. A
  // partition that is larger than bytes_max in memory is divided when it is its turn.
  RowSpill(const std::string& directory, MergeOrder order, const std::vector<RowKey>& bounds,
           std::size_t bytes_max);

  // What rows take in memory once they are read back; bytes: of topics and values.
  static std::size_t MemoryOf(std::size_t rows, std::size_t bytes);

  // kStorage, as all that follow. REQUIRES: the key is not before those that were taken
  Status Add(const RowKey& key, const Page& page, std::uint32_t row);
  Status Add(const RowKey& key, const PackedRow& row);
  // Rows of a page by their numbers in it; their slots mean nothing here.
  struct PageRows {
    std::shared_ptr<const Page> page;
    std::vector<MergedRow> rows;
  };
  // Adds all of them, side by side on several processors if they are many.
  Status Add(std::span<const PageRows> pages);
  // Behind the last partition nothing follows.
  bool is_finished() const { return partitions_.empty(); }
  // Where the next partition begins: no key of it is before. REQUIRES: !is_finished(), as for all
  // that follow
  RowKey Begin() const { return partitions_.front().begin; }
  // Where the next partition ends; absent if it is the last one.
  std::optional<RowKey> End() const;
  // What the next partition takes in memory at most, once it was divided and read.
  std::size_t NextBytesMax() const { return std::min(partitions_.front().memory(), bytes_max_); }
  // Divides the next partition if it is too large: End() is another one then.
  Status Prepare();
  // The pages of the next partition, which is gone then; all of their rows were added.
  Result<std::vector<std::shared_ptr<const Page>>> Take();

  std::uint64_t rows_written() const;
  std::uint64_t bytes_written() const;

 private:
  struct Partition {
    RowKey begin;
    std::vector<SpillPart> parts;  // one of each lane

    std::size_t memory() const;
    std::uint64_t rows() const;
    std::vector<RowKey> SortedSample() const;
  };

  Partition NewPartition(const RowKey& begin) const {
    return {begin, std::vector<SpillPart>(lanes_.size())};
  }
  bool IsIn(std::size_t partition, const RowKey& key) const;
  // The partition of a key; likely: where to look first.
  std::size_t PartitionOf(const RowKey& key, std::size_t likely) const;
  // Threads may be in it for one lane each.
  Status Add(std::span<const PageRows> pages, std::size_t lane);

  const MergeOrder order_;
  const std::size_t bytes_max_;
  std::deque<SpillLane> lanes_;
  std::deque<Partition> partitions_;  // not taken yet, ascending
};

}  // namespace topicdb::columnar
