// The formats of segment files. There are two: TopicDB's own, and that of EMQX's replayq.
//
// A segment file holds items in frames, in the order of their sequence numbers.
// docs/internals/format.md draws the bytes.
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

// Identifies a queue. Each segment file names the queue that it belongs to.
using QueueId = std::array<char, 16>;

// What the header of a segment file says. The checksums of its frames depend on it, so that a frame
// is valid only in this file and at its offset.
struct SegmentIdentity {
  std::uint64_t number = 0;          // from 1; consecutive within a log
  std::uint64_t first_sequence = 0;  // of its first item
  // The number that follows the last item of the segment before. It is less than first_sequence if
  // the process ended without closing: no stored item has one of the numbers between.
  std::uint64_t previous_end = 0;
  QueueId queue_id{};
  // Whether its items have weights. If not, an item counts its bytes in the file.
  bool weighed = false;

  bool operator==(const SegmentIdentity&) const = default;
};

// Items, and the weight of each: what it counts for the limits of a queue. It refers to memory of
// the caller.
struct WeighedItems {
  // These constructors are for items without weights.
  WeighedItems(std::span<const std::string_view> items_) : items(items_) {}
  WeighedItems(const std::vector<std::string_view>& items_) : items(items_) {}
  WeighedItems(std::span<const std::string_view> items_, std::span<const std::uint64_t> weights_)
      : items(items_), weights(weights_) {}

  // Returns the first `count` of them.
  WeighedItems First(std::size_t count) const;
  // Takes the first `count` of them away.
  void RemoveFirst(std::size_t count);
  // Returns the sum of the weights.
  std::uint64_t Weight() const;

  std::span<const std::string_view> items;
  std::span<const std::uint64_t> weights;  // as many as items, or none
  std::uint64_t weight_before = 0;         // of all items before them in their segment
};

// What the footer of a sealed segment says.
struct SegmentFooter {
  std::uint64_t first_sequence = 0;
  std::uint64_t end_sequence = 0;  // after the last item
  std::uint64_t payload_bytes = 0;
  std::uint64_t frames_end = 0;  // the offset after the last frame
  std::uint64_t weight = 0;      // of the items; 0 if they have no weights

  bool operator==(const SegmentFooter&) const = default;
};

// The items of a frame, or of several consecutive frames.
struct Block {
  std::uint64_t first_sequence = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t end_offset = 0;
  // Whether the append that these items are part of continues in the next frame.
  bool continues = false;
  std::vector<std::string_view> items;  // refer to the bytes that were parsed
  std::vector<std::uint64_t> weights;   // as many as items; none if the items have no weights
  std::uint64_t weight_before = 0;      // of the items before them in the segment, if they have any

  std::uint64_t end_sequence() const { return first_sequence + items.size(); }
  // Returns the weight of the items before them in the segment, and of themselves.
  std::uint64_t weight_behind() const;
};

// What Parse found at an offset.
enum class Found {
  kBlock,
  kShort,    // may be a frame of Parsed::bytes bytes, but there are fewer bytes
  kDamaged,  // a frame of Parsed::bytes bytes and Parsed::items items, with a wrong checksum
  kNothing,  // nothing that can be trusted
};

// What Parse returns. Which members have a meaning depends on `found`.
struct Parsed {
  Found found = Found::kNothing;
  std::uint64_t bytes = 0;
  std::uint64_t first_sequence = 0;  // for kDamaged
  std::uint64_t items = 0;
};

// Encodes and decodes segment files. There is one object for each format, which lives as long as
// the process. Immutable, so thread-safe.
class SegmentFormat {
 public:
  virtual ~SegmentFormat() = default;
  SegmentFormat(const SegmentFormat&) = delete;
  SegmentFormat& operator=(const SegmentFormat&) = delete;

  // Returns the name of a segment file: the number with leading zeros, and the extension.
  std::string FileName(std::uint64_t number) const;
  // Returns the number of the segment file with that name, or nothing if it is not one.
  std::optional<std::uint64_t> NumberOf(std::string_view file_name) const;

  // Returns the length of the header, with which each file begins.
  virtual std::size_t header_bytes() const = 0;
  virtual std::string EncodeHeader(const SegmentIdentity& identity) const = 0;
  // Decodes a header. `number` is the one in the file's name. Returns kCorruption if the bytes are
  // not a header, and kSchema if they are one of another version.
  virtual Result<SegmentIdentity> DecodeHeader(std::string_view bytes,
                                               std::uint64_t number) const = 0;
  // Returns the length of the footer, with which each sealed file ends; 0: there is no footer.
  virtual std::size_t footer_bytes() const = 0;
  virtual std::string EncodeFooter(const SegmentIdentity& identity,
                                   const SegmentFooter& footer) const = 0;
  // Decodes a footer at `offset`. Returns nothing if the bytes are not the footer of that segment.
  // identity.first_sequence may be 0 if it is not known.
  virtual std::optional<SegmentFooter> DecodeFooter(const SegmentIdentity& identity,
                                                    std::uint64_t offset,
                                                    std::string_view bytes) const = 0;

  // Adds the frames of one append to `out`. They begin at `offset` of the file.
  // REQUIRES: there are items, each is smaller than 4 GiB - 1 MiB, and they have weights if those
  // of the segment do
  virtual void EncodeFrames(const SegmentIdentity& identity, std::uint64_t offset,
                            std::uint64_t first_sequence, WeighedItems items,
                            std::string* out) const = 0;
  // Parses the frame at the beginning of `bytes`, which are at `offset` of the file. If the format
  // does not number items, the first one gets the number `expected`. Reuses the memory of `block`;
  // block->items refer to `bytes`.
  virtual Parsed Parse(const SegmentIdentity& identity, std::uint64_t offset,
                       std::uint64_t expected, std::string_view bytes, Block* block) const = 0;
  // Returns where behind the start of `bytes`, which are at `offset`, a frame may begin, or their
  // size if nowhere. The caller must try Parse there.
  virtual std::size_t NextCandidate(std::uint64_t offset, std::string_view bytes) const = 0;
  // Returns how many bytes an item adds to its frame.
  virtual std::uint64_t ItemBytes(std::string_view item) const = 0;
  // Returns the number of the first item of a new segment, if the items before it end at
  // `next_sequence`.
  virtual std::uint64_t FirstSequence(std::uint64_t number, std::uint64_t next_sequence) const = 0;
  // Returns whether frames say which numbers their items have. If not, damaged bytes count as one
  // item.
  virtual bool numbers_items() const = 0;

 protected:
  SegmentFormat(std::size_t name_digits, std::string_view extension, std::uint64_t number_max)
      : name_digits_(name_digits), extension_(extension), number_max_(number_max) {}

 private:
  const std::size_t name_digits_;
  const std::string extension_;
  const std::uint64_t number_max_;
};

// Returns TopicDB's own format.
const SegmentFormat& NativeSegmentFormat();
// Puts the checksums into a frame of TopicDB's own format. REQUIRES: frame.size() >= 32
void StampNativeFrame(const SegmentIdentity& identity, std::uint64_t offset, std::span<char> frame);
// Returns the format of EMQX's replayq 0.5. It writes replayq's layout v1, and reads v0 as well.
// Item i (from 1) of segment s has the number s * 2^32 + i.
const SegmentFormat& ReplayqSegmentFormat();

}  // namespace topicdb
