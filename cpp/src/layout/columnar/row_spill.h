// Rows that wait in a temporary file, in partitions by their keys.
//
// A merge whose rows overlap so much that they exceed its memory puts here what comes later: a row
// is written once to the partition that its key falls into, and partitions are read back one after
// the other, each whole. So every page is decoded once, whatever overlaps. This is a distribution
// sort: Knuth, The Art of Computer Programming, volume 3, section 5.2.5.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "layout/columnar/page.h"
#include "layout/columnar/row_sort.h"
#include "topicdb/status.h"

namespace topicdb::columnar {

// How the rows of a page are ordered.
enum class MergeOrder {
  kTime,    // timestamp, serial, index
  kSerial,  // serial, index: as committed
};
RowKey KeyOf(MergeOrder order, const Page& page, std::uint32_t row);

// Owned by one merge; not thread-safe. A partition of less than 64 KiB stays in memory, and without
// a larger one there is no file. The file has no name, so nothing is left of it once it is gone,
// also by a crash.
class RowSpill {
 public:
  // Partitions have some 64 KiB of memory each.
  static constexpr std::size_t kPartitionsMax = 192;

  // bounds: where partitions begin, ascending; the first one also takes what is before. The file is
  // in `directory`, or, if nothing can be written there, where the system has temporary files. A
  // partition that is larger than bytes_max in memory is divided when it is its turn.
  RowSpill(std::string directory, MergeOrder order, const std::vector<RowKey>& bounds,
           std::size_t bytes_max);

  // What rows take in memory once they are read back; bytes: of topics and values.
  static std::size_t MemoryOf(std::size_t rows, std::size_t bytes);

  // kStorage, as all that follow. REQUIRES: the key is not before those that were taken
  Status Add(const RowKey& key, const Page& page, std::uint32_t row);
  Status Add(const RowKey& key, const PackedRow& row);
  // Behind the last partition nothing follows.
  bool is_finished() const { return partitions_.empty(); }
  // Where the next partition begins: no key of it is before. REQUIRES: !is_finished(), as for all
  // that follow
  RowKey Begin() const { return partitions_.front().begin; }
  // Where the next partition ends; absent if it is the last one.
  std::optional<RowKey> End() const;
  // Divides the next partition if it is too large: End() is another one then.
  Status Prepare();
  // The pages of the next partition, which is gone then; all of their rows were added.
  Result<std::vector<std::shared_ptr<const Page>>> Take();

  std::uint64_t rows_written() const { return rows_written_; }
  std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  // A part of the file.
  struct Piece {
    std::uint64_t offset;
    std::size_t bytes;
  };
  struct StagedRow {
    std::uint64_t serial;
    std::int64_t time;
    std::uint32_t index;
    std::uint32_t topic;      // in `topics`
    std::size_t value_begin;  // in `bytes`
    std::uint32_t value_bytes;
  };
  struct StagedTopic {
    std::uint32_t stream;
    std::size_t begin;  // in `bytes`
    std::size_t size;
  };
  struct Partition {
    RowKey begin;
    // What is not written yet.
    std::vector<StagedRow> rows;
    std::vector<StagedTopic> topics;
    std::string bytes;
    std::vector<Piece> chunks;          // one page each
    std::vector<Piece> extents;         // that chunks are in
    std::size_t extent_bytes_left = 0;  // of the last one
    std::uint64_t rows_added = 0;
    std::size_t memory = 0;      // that its pages will take
    std::vector<RowKey> sample;  // of its keys
  };

  Partition& PartitionOf(const RowKey& key);
  void AddSample(const RowKey& key, Partition* partition);
  // The page of the rows that are not written yet, which are forgotten.
  std::string Encode(Partition* partition);
  Status Write(Partition* partition);
  Status OpenFile();
  // Where the next chunk of a partition goes.
  std::uint64_t Reserve(Partition* partition, std::size_t bytes);
  // Any number of threads may be in it.
  Result<std::shared_ptr<const Page>> Read(const Piece& chunk) const;
  // Gives back what the partition has of the file.
  void Discard(const Partition& partition);

  const std::string directory_;
  const MergeOrder order_;
  const std::size_t bytes_max_;
  std::deque<Partition> partitions_;  // not taken yet, ascending
  std::shared_ptr<File> file_;        // null: nothing was written
  std::uint64_t file_end_ = 0;
  std::uint64_t rows_written_ = 0;
  std::uint64_t bytes_written_ = 0;
  PlainPageBuilder builder_;
};

}  // namespace topicdb::columnar
