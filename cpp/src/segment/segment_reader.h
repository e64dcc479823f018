// Reads the frames of one segment file in order, in memory that does not grow with the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/file/file.h"
#include "segment/segment_format.h"

namespace topicdb {

// Bytes of a file that items refer to. Whoever keeps it keeps their bytes.
struct SegmentWindow {
  explicit SegmentWindow(std::size_t capacity_)
      : bytes(std::make_unique_for_overwrite<char[]>(capacity_)), capacity(capacity_) {}
  std::unique_ptr<char[]> bytes;
  std::size_t capacity;
  std::size_t size = 0;      // of what was read
  std::uint64_t offset = 0;  // of the first byte in the file
};

// Items that are in the file no more.
struct LostItems {
  std::uint64_t first_sequence = 0;
  std::uint64_t end_sequence = 0;
  std::uint64_t offset = 0;  // of the damaged bytes
  std::uint64_t bytes = 0;
};

enum class ReadEvent {
  kBlock,  // the next frame
  kLost,   // bytes that are no valid frame; reading goes on behind them
  kEnd,
};

// Where the part of a file ends that may be read.
struct ReadLimit {
  std::uint64_t offset = 0;
  std::uint64_t sequence = 0;  // after its last item; 0 if that is not known
};

// Not thread-safe. The file may grow meanwhile.
class SegmentReader {
 public:
  static constexpr std::size_t kWindowBytes = std::size_t{256} << 10;

  SegmentReader(std::shared_ptr<const File> file, const SegmentFormat& format,
                const SegmentIdentity& identity);

  // To a frame, or the end, whose first item has this number.
  void Seek(std::uint64_t offset, std::uint64_t sequence);
  // The next event before `limit`. After kBlock, block() is it; after kLost, lost() says what.
  // kStorage if the file cannot be read.
  Result<ReadEvent> Next(const ReadLimit& limit);

  const Block& block() const { return block_; }
  const LostItems& lost() const { return lost_; }
  // What the items of block() refer to.
  const SegmentWindow& window() const { return *window_; }
  const std::shared_ptr<const void>& window_owner() const { return window_owner_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t sequence() const { return sequence_; }

 private:
  // Parses at offset(), reading as much as it takes.
  Result<Parsed> ParseHere(std::uint64_t limit_offset);
  // Has at least `size` bytes from offset() in the window, or all before the limit.
  Status Fill(std::size_t size, std::uint64_t limit_offset);
  std::string_view Rest() const;
  // Goes to the next valid frame, or to the limit.
  Status Resynchronise(const ReadLimit& limit);
  ReadEvent Lose(std::uint64_t end_sequence, std::uint64_t offset);

  const std::shared_ptr<const File> file_;
  const SegmentFormat& format_;
  const SegmentIdentity identity_;
  std::uint64_t offset_;
  std::uint64_t sequence_;
  std::shared_ptr<SegmentWindow> window_;
  std::shared_ptr<const void> window_owner_;  // the same
  Block block_;
  LostItems lost_;
};

}  // namespace topicdb
