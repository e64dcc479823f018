// Segment files of EMQX's replayq 0.5 (github.com/emqx/replayq), as its source defines them.
// docs/internals/format.md draws the bytes. Numbers are big-endian. There is no header and no
// footer, and items are counted, not numbered.
#include <algorithm>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "segment/segment_format.h"

namespace topicdb {

namespace {

constexpr char kVersion1 = 1;
constexpr char kVersion0 = 0;
constexpr std::uint32_t kMagic = 841265288;
constexpr std::size_t kHeader1Bytes = 13;
constexpr std::size_t kHeader0Bytes = 9;
constexpr std::string_view kExtension = ".replaylog";
constexpr std::size_t kNumberDigits = 10;
constexpr int kSegmentShift = 32;
// Parse makes one block of at most this many records, so that a single item does not cost as much
// work as a frame.
constexpr std::size_t kBlockItemsMax = 1'024;

// What is at some place: a whole record, or how it is broken.
struct Record {
  Found found = Found::kNothing;
  std::uint64_t bytes = 0;
  std::string_view payload;
};

Record ParseVersion1(std::string_view bytes) {
  if (bytes.size() < kHeader1Bytes) return {Found::kShort, kHeader1Bytes, {}};
  Decoder in(bytes.substr(1));
  if (in.Big<std::uint32_t>() != kMagic) return {};
  const auto crc = in.Big<std::uint32_t>();
  const std::uint64_t size = in.Big<std::uint32_t>();
  if (bytes.size() < kHeader1Bytes + size) return {Found::kShort, kHeader1Bytes + size, {}};
  const std::string_view payload = bytes.substr(kHeader1Bytes, size);
  const Found found = Crc32(payload) == crc ? Found::kBlock : Found::kDamaged;
  return {found, kHeader1Bytes + size, payload};
}

// Nine zero bytes would be a record of no bytes. Replayq takes those for damage, and so does this.
Record ParseVersion0(std::string_view bytes) {
  if (bytes.size() < kHeader0Bytes) return {Found::kShort, kHeader0Bytes, {}};
  Decoder in(bytes.substr(1));
  const auto crc = in.Big<std::uint32_t>();
  const std::uint64_t size = in.Big<std::uint32_t>();
  if (size == 0) return {};
  if (bytes.size() < kHeader0Bytes + size) return {Found::kShort, kHeader0Bytes + size, {}};
  const std::string_view payload = bytes.substr(kHeader0Bytes, size);
  if (Crc32(payload) != crc) return {};  // no magic number shows that it is a record
  return {Found::kBlock, kHeader0Bytes + size, payload};
}

Record ParseRecord(std::string_view bytes) {
  if (bytes.empty()) return {Found::kShort, 1, {}};
  if (bytes[0] == kVersion1) return ParseVersion1(bytes);
  return bytes[0] == kVersion0 ? ParseVersion0(bytes) : Record{};
}

// Returns whether a record, or the end of the file, may be here. If not, the length of the record
// before cannot be trusted, since no checksum covers it.
bool MayBegin(std::string_view bytes) {
  const Found found = ParseRecord(bytes).found;
  return found == Found::kBlock || found == Found::kShort;
}

// The format of replayq. It has neither header nor footer.
class ReplayqFormat : public SegmentFormat {
 public:
  ReplayqFormat() : SegmentFormat(kNumberDigits, kExtension, UINT32_MAX) {}

  std::size_t header_bytes() const override { return 0; }
  std::string EncodeHeader(const SegmentIdentity& /*identity*/) const override { return {}; }
  Result<SegmentIdentity> DecodeHeader(std::string_view /*bytes*/,
                                       std::uint64_t number) const override {
    return SegmentIdentity{number, FirstSequence(number, 0), 0, {}};
  }
  std::size_t footer_bytes() const override { return 0; }
  std::string EncodeFooter(const SegmentIdentity& /*identity*/,
                           const SegmentFooter& /*footer*/) const override {
    return {};
  }
  std::optional<SegmentFooter> DecodeFooter(const SegmentIdentity& /*identity*/,
                                            std::uint64_t /*offset*/,
                                            std::string_view /*bytes*/) const override {
    return std::nullopt;
  }

  void EncodeFrames(const SegmentIdentity& /*identity*/, std::uint64_t /*offset*/,
                    std::uint64_t /*first_sequence*/, WeighedItems items,
                    std::string* out) const override {
    for (const std::string_view item : items.items) {
      out->push_back(kVersion1);
      AppendBig(out, kMagic);
      AppendBig(out, Crc32(item));
      AppendBig(out, static_cast<std::uint32_t>(item.size()));
      out->append(item);
    }
  }

  Parsed Parse(const SegmentIdentity& /*identity*/, std::uint64_t offset, std::uint64_t expected,
               std::string_view bytes, Block* block) const override {
    block->items.clear();
    block->first_sequence = expected;
    block->offset = offset;
    block->continues = false;
    std::uint64_t parsed = 0;
    while (block->items.size() < kBlockItemsMax) {
      const Record record = ParseRecord(bytes.substr(parsed));
      if (record.found != Found::kBlock) {
        if (!block->items.empty()) break;
        if (record.found == Found::kDamaged && !MayBegin(bytes.substr(record.bytes))) return {};
        return {record.found, record.bytes, expected, 1};
      }
      block->items.push_back(record.payload);
      parsed += record.bytes;
    }
    block->end_offset = offset + parsed;
    return {Found::kBlock, parsed, expected, block->items.size()};
  }

  std::size_t NextCandidate(std::uint64_t /*offset*/, std::string_view bytes) const override {
    std::string mark(1, kVersion1);
    AppendBig(&mark, kMagic);
    return std::min(bytes.find(mark, 1), bytes.size());
  }

  std::uint64_t ItemBytes(std::string_view item) const override {
    return kHeader1Bytes + item.size();
  }
  std::uint64_t FirstSequence(std::uint64_t number,
                              std::uint64_t /*next_sequence*/) const override {
    return (number << kSegmentShift) + 1;
  }
  bool numbers_items() const override { return false; }
};

}  // namespace

const SegmentFormat& ReplayqSegmentFormat() {
  static const ReplayqFormat format;
  return format;
}

}  // namespace topicdb
