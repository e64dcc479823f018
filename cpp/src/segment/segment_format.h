// How segment files are encoded. There are two ways: TopicDB's own, and that of EMQX's replayq.
//
// A segment file holds items in the order of their sequence numbers, in frames. docs/format.md
// draws the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"

namespace topicdb {

using QueueId = std::array<char, 16>;

// What a segment file says of itself at its beginning. Checksums of its frames depend on it, so
// that a frame is valid in this file and at its offset only.
struct SegmentIdentity {
  std::uint64_t number = 0;          // from 1; those of one log are consecutive
  std::uint64_t first_sequence = 0;  // of its first item
  // What follows the last item of the segment before. Less than first_sequence if the process
  // ended without closing: the numbers between were never given to an item that is stored.
  std::uint64_t previous_end = 0;
  QueueId queue_id{};

  bool operator==(const SegmentIdentity&) const = default;
};

// What a sealed segment says of itself at its end.
struct SegmentFooter {
  std::uint64_t first_sequence = 0;
  std::uint64_t end_sequence = 0;  // after the last item
  std::uint64_t payload_bytes = 0;
  std::uint64_t frames_end = 0;  // the offset after the last frame

  bool operator==(const SegmentFooter&) const = default;
};

// The items of a frame, or of several that follow each other.
struct Block {
  std::uint64_t first_sequence = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t end_offset = 0;
  // Whether the append that these items are part of goes on in the next frame.
  bool continues = false;
  std::vector<std::string_view> items;  // into the bytes that were parsed

  std::uint64_t end_sequence() const { return first_sequence + items.size(); }
};

// What is found at an offset.
enum class Found {
  kBlock,
  kShort,    // what could be a frame of Parsed::bytes bytes, but there are fewer
  kDamaged,  // a frame of Parsed::bytes bytes and Parsed::items items with another checksum
  kNothing,  // nothing that could be trusted
};

struct Parsed {
  Found found = Found::kNothing;
  std::uint64_t bytes = 0;
  std::uint64_t first_sequence = 0;  // of kDamaged
  std::uint64_t items = 0;
};

// Immutable, so thread-safe.
class SegmentFormat {
 public:
  virtual ~SegmentFormat() = default;
  SegmentFormat(const SegmentFormat&) = delete;
  SegmentFormat& operator=(const SegmentFormat&) = delete;

  // The number with leading zeros, and the extension.
  std::string FileName(std::uint64_t number) const;
  // The number of a segment file of that name; none if it is not one.
  std::optional<std::uint64_t> NumberOf(std::string_view file_name) const;

  // Bytes at the beginning of each file.
  virtual std::size_t header_bytes() const = 0;
  virtual std::string EncodeHeader(const SegmentIdentity& identity) const = 0;
  // kCorruption if the bytes are not those of a header, kSchema if they are of another version.
  // `number` is that of the file's name.
  virtual Result<SegmentIdentity> DecodeHeader(std::string_view bytes,
                                               std::uint64_t number) const = 0;
  // Bytes at the end of each sealed file; 0: there is no footer.
  virtual std::size_t footer_bytes() const = 0;
  virtual std::string EncodeFooter(const SegmentIdentity& identity,
                                   const SegmentFooter& footer) const = 0;
  // None if the bytes, which are at `offset`, are no footer of that segment. The number of its
  // first item may be 0, if it is not known.
  virtual std::optional<SegmentFooter> DecodeFooter(const SegmentIdentity& identity,
                                                    std::uint64_t offset,
                                                    std::string_view bytes) const = 0;

  // Adds the frames of one append to `out`. REQUIRES: !items.empty(), each below 4 GiB - 1 MiB
  virtual void EncodeFrames(const SegmentIdentity& identity, std::uint64_t offset,
                            std::uint64_t first_sequence, std::span<const std::string_view> items,
                            std::string* out) const = 0;
  // The frame at the beginning of `bytes`, which are at `offset` of the file; its items, if they
  // have no number, begin with `expected`. Reuses the block. `block->items` refer to `bytes`.
  virtual Parsed Parse(const SegmentIdentity& identity, std::uint64_t offset,
                       std::uint64_t expected, std::string_view bytes, Block* block) const = 0;
  // Where in `bytes`, which are at `offset`, a frame may begin, not at their start; their size if
  // nowhere. To be tried by Parse.
  virtual std::size_t NextCandidate(std::uint64_t offset, std::string_view bytes) const = 0;
  // What an item adds to the size of its frame.
  virtual std::uint64_t ItemBytes(std::string_view item) const = 0;
  // The number of the first item of a new segment, if those before end at `next_sequence`.
  virtual std::uint64_t FirstSequence(std::uint64_t number, std::uint64_t next_sequence) const = 0;
  // Whether frames say which numbers their items have. If not, damaged bytes count as one item.
  virtual bool numbers_items() const = 0;

 protected:
  SegmentFormat(std::size_t name_digits, std::string_view extension, std::uint64_t number_max)
      : name_digits_(name_digits), extension_(extension), number_max_(number_max) {}

 private:
  const std::size_t name_digits_;
  const std::string extension_;
  const std::uint64_t number_max_;
};

// TopicDB's own.
const SegmentFormat& NativeSegmentFormat();
// Puts the checksums into a frame of that format. REQUIRES: frame.size() >= 32
void StampNativeFrame(const SegmentIdentity& identity, std::uint64_t offset, std::span<char> frame);
// EMQX's replayq 0.5: writes its layout v1, reads v0 as well. The number of item i (from 1) of
// segment s is s * 2^32 + i.
const SegmentFormat& ReplayqSegmentFormat();

}  // namespace topicdb
