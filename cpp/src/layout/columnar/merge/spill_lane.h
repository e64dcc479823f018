// A lane of a spill: the rows that one thread spills, in parts, and the temporary file that they
// wait in.
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

// The rows of one lane that fall into one partition of a spill. The partition owns it.
struct SpillPart {
  // A piece of the lane's file.
  struct Piece {
    std::uint64_t offset;
    std::size_t bytes;
  };
  // A row that is not written yet, and a topic of such rows.
  struct StagedRow {
    Serial serial;
    std::int64_t time;
    std::uint32_t index;
    std::uint32_t topic;      // in `topics`
    std::size_t value_begin;  // in `bytes`
    std::uint32_t value_bytes;
  };
  struct StagedTopic {
    StreamId stream;
    std::size_t begin;  // in `bytes`
    std::size_t size;
  };

  // Rows that are not written yet.
  std::vector<StagedRow> rows;
  std::vector<StagedTopic> topics;
  std::string bytes;
  std::vector<Piece> chunks;          // each is one page
  std::vector<Piece> extents;         // pieces that have the chunks
  std::size_t extent_bytes_left = 0;  // free bytes of the last extent
  std::uint64_t rows_added = 0;
  std::size_t memory = 0;      // that the pages of the part take once they are read back
  std::vector<RowKey> sample;  // of the keys of the part

  // Returns the memory that `rows`, `topics` and `bytes` take.
  std::size_t staged_bytes() const {
    return rows.capacity() * sizeof(StagedRow) + topics.capacity() * sizeof(StagedTopic) +
           bytes.capacity() - std::string().capacity();
  }
  // Frees the memory of `rows`, `topics` and `bytes`. REQUIRES: all rows are written
  void FreeStaged() {
    std::vector<StagedRow>().swap(rows);
    std::vector<StagedTopic>().swap(topics);
    std::string().swap(bytes);  // to assign an empty string would keep the memory
  }
};

// Spills rows to a file of its own. Owned by one RowSpill. At most one thread at a time may use a
// lane, except for Read. Threads that use different lanes do not wait for each other.
//
// The file has no name, so nothing is left of it after the lane has ended, or after a crash. There
// is no file before a part has chunk_bytes.
//
// Add, Write, TakeStaged and Read return kStorage if the file cannot be written or read.
class SpillLane {
 public:
  // The memory that a row takes besides its topic and value, once its page is read back.
  static constexpr std::size_t kRowBytes = 44 + 12 + sizeof(MergedRow);
  static constexpr std::size_t kTopicBytes = 8;

  // The file is in `directory`, or in the system's directory for temporary files if nothing can be
  // written there.
  SpillLane(std::string directory, std::size_t chunk_bytes)
      : directory_(std::move(directory)), chunk_bytes_(chunk_bytes) {}

  // Adds a row to a part. Writes the rows of the part once they have chunk_bytes.
  Status Add(const RowKey& key, const PackedRow& row, SpillPart* part);
  // Writes the rows of a part that are not written yet.
  Status Write(SpillPart* part);
  // Removes the rows of a part that are not written yet, and returns them as a page. Returns null
  // if there are none.
  Result<std::shared_ptr<const Page>> TakeStaged(SpillPart* part);
  // Reads a chunk into `memory`, which has room for it. Any number of threads may call it at once.
  Result<std::shared_ptr<const Page>> Read(const SpillPart::Piece& chunk,
                                           std::shared_ptr<char> memory) const;
  // Lets parts that are written later use the place in the file that this part has. The caller must
  // have read the part.
  void Reuse(const SpillPart& part);

  // Return how much was written to the file so far.
  std::uint64_t rows_written() const { return rows_written_; }
  std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  // Counts a row of the part, and keeps its key with a probability that makes a sample of all keys.
  static void AddSample(const RowKey& key, SpillPart* part);
  // Removes the rows of a part that are not written yet, and returns the bytes of a page of them.
  std::string Encode(SpillPart* part);
  // Makes the temporary file.
  Status OpenFile();
  // Returns a piece of the file with at least `bytes` bytes that no part uses.
  SpillPart::Piece NewExtent(std::size_t bytes);
  // Reserves room for the next chunk of a part, and returns its offset in the file.
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
