// What one thread of a spill has put aside: rows in parts, and the temporary file that they wait
// in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file/file.h"
#include "layout/columnar/format/page.h"
#include "layout/columnar/merge/row_sort.h"
#include "topicdb/status.h"

namespace topicdb::columnar {

// The rows of one lane that fall into one partition of a spill.
struct SpillPart {
  // A piece of the lane's file.
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

// Owned by one RowSpill. One thread at a time adds, another may do so to another lane: each lane
// has a file of its own, so that they do not wait for each other. The file has no name, so nothing
// is left of it once it is gone, also by a crash; as long as no part has chunk_bytes there is none.
class SpillLane {
 public:
  // What a row takes in memory beside its topic and value, once its page is read back.
  static constexpr std::size_t kRowBytes = 44 + 12 + sizeof(MergedRow);
  static constexpr std::size_t kTopicBytes = 8;

  // The file is in `directory`, or, if nothing can be written there, where the system has temporary
  // files.
  SpillLane(std::string directory, std::size_t chunk_bytes)
      : directory_(std::move(directory)), chunk_bytes_(chunk_bytes) {}

  // kStorage, as all that follow.
  Status Add(const RowKey& key, const PackedRow& row, SpillPart* part);
  // Writes what is staged.
  Status Write(SpillPart* part);
  // The page of what is staged, which is forgotten; null if there is nothing.
  Result<std::shared_ptr<const Page>> TakeStaged(SpillPart* part);
  // Any number of threads may be in it.
  Result<std::shared_ptr<const Page>> Read(const SpillPart::Piece& chunk) const;
  // Parts that are written later take the place of this one, which was read.
  void Reuse(const SpillPart& part);

  std::uint64_t rows_written() const { return rows_written_; }
  std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  static void AddSample(const RowKey& key, SpillPart* part);
  std::string Encode(SpillPart* part);
  Status OpenFile();
  SpillPart::Piece NewExtent(std::size_t bytes);
  // Where the next chunk of a part goes.
  std::uint64_t Reserve(SpillPart* part, std::size_t bytes);

  const std::string directory_;
  const std::size_t chunk_bytes_;
  std::shared_ptr<File> file_;  // null: nothing was written
  std::uint64_t file_end_ = 0;
  std::vector<SpillPart::Piece> free_extents_;
  std::uint64_t rows_written_ = 0;
  std::uint64_t bytes_written_ = 0;
  PlainPageBuilder builder_;
};

}  // namespace topicdb::columnar
