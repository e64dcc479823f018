// Reads the frames of one segment file in order. The memory it takes does not grow with the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/file/file.h"
#include "segment/segment_format.h"

namespace topicdb {

// Bytes of a file that items refer to. Whoever keeps the window keeps the bytes of the items.
struct SegmentWindow {
  explicit SegmentWindow(std::size_t capacity_)
      : bytes(std::make_unique_for_overwrite<char[]>(capacity_)), capacity(capacity_) {}
  std::unique_ptr<char[]> bytes;
  std::size_t capacity;
  std::size_t size = 0;      // bytes that were read
  std::uint64_t offset = 0;  // in the file, of the first byte
};

// Items that the file does not have any more.
struct LostItems {
  std::uint64_t first_sequence = 0;
  std::uint64_t end_sequence = 0;
  std::uint64_t offset = 0;  // of the damaged bytes
  std::uint64_t bytes = 0;
};

// What one step of a reader finds.
enum class ReadEvent {
  kBlock,  // the next frame
  kLost,   // bytes that are not a valid frame; reading continues behind them
  kEnd,
};

// Where the readable part of a file ends.
struct ReadLimit {
  std::uint64_t offset = 0;
  std::uint64_t sequence = 0;  // after its last item; 0 if it is not known
};

// Reads the frames of one segment file, around damage. The `format` must outlive it. Not
// thread-safe, but the file may grow meanwhile.
class SegmentReader {
 public:
  static constexpr std::size_t kWindowBytes = std::size_t{256} << 10;

  // Reads `window_bytes` at a time, or a frame if that is larger. A small file needs no large
  // window.
  SegmentReader(std::shared_ptr<const File> file, const SegmentFormat& format,
                const SegmentIdentity& identity, std::size_t window_bytes = kWindowBytes);

  // Moves to a frame whose first item has the number `sequence`, or to the end.
  void Seek(std::uint64_t offset, std::uint64_t sequence);
  // Returns the next event before `limit`. After kBlock, block() returns the frame. After kLost,
  // lost() says what was lost. Returns kStorage if the file cannot be read.
  Result<ReadEvent> Next(const ReadLimit& limit);

  const Block& block() const { return block_; }
  const LostItems& lost() const { return lost_; }
  // Returns the bytes that the items of block() refer to.
  const SegmentWindow& window() const { return *window_; }
  // Keeps that window alive.
  const std::shared_ptr<const void>& window_owner() const { return window_owner_; }
  // Return where the next frame begins, and the number of its first item.
  std::uint64_t offset() const { return offset_; }
  std::uint64_t sequence() const { return sequence_; }

 private:
  // Parses the frame at offset(), and reads as many bytes as that takes. Finds nothing if the frame
  // passes the limit.
  Result<Parsed> ParseHere(std::uint64_t limit_offset);
  // Makes the window hold at least `size` bytes from offset() on, or all before the limit.
  Status Fill(std::size_t size, std::uint64_t limit_offset);
  // Returns the bytes of the window from offset() on.
  std::string_view Rest() const;
  // Moves to the next valid frame, or to the limit.
  Status Resynchronise(const ReadLimit& limit);
  // Reports the items up to `end_sequence` and the bytes up to `offset` as lost, and moves behind
  // them.
  ReadEvent Lose(std::uint64_t end_sequence, std::uint64_t offset);

  const std::shared_ptr<const File> file_;
  const SegmentFormat& format_;
  const SegmentIdentity identity_;
  const std::size_t window_bytes_;
  std::uint64_t offset_;
  std::uint64_t sequence_;
  std::shared_ptr<SegmentWindow> window_;
  std::shared_ptr<const void> window_owner_;  // the same window
  Block block_;
  LostItems lost_;
};

}  // namespace topicdb
