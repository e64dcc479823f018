// TopicDB's own segment files. docs/internals/format.md draws the bytes.
#include <algorithm>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "segment/segment_format.h"

namespace topicdb {

namespace {

constexpr std::string_view kFileMagic = "TDBSEGM\n";
constexpr std::uint16_t kVersion = 1;
constexpr std::uint32_t kFrameMagic = 0x01465154;   // "TQF\x01"
constexpr std::uint32_t kFooterMagic = 0x01455154;  // "TQE\x01"
// Of segments whose items have weights.
constexpr std::uint16_t kWeighedVersion = 2;
constexpr std::uint32_t kWeighedFrameMagic = 0x02465154;   // "TQF\x02"
constexpr std::uint32_t kWeighedFooterMagic = 0x02455154;  // "TQE\x02"
constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kFrameHeaderBytes = 32;
constexpr std::size_t kCheckAt = 4;
constexpr std::size_t kFieldsBegin = 8;
constexpr std::size_t kBodyBytesAt = 20;
constexpr std::size_t kBodyCrcAt = 28;
constexpr std::size_t kFieldsBytes = kBodyCrcAt - kFieldsBegin;
constexpr std::size_t kFooterBytes = 64;
constexpr std::size_t kAlignment = 8;
// An append with more bytes becomes several frames, so that a reader needs memory for this much, or
// for one item if that is larger.
constexpr std::size_t kFrameBodyTarget = std::size_t{1} << 20;
constexpr std::uint8_t kContinues = 2;
constexpr std::uint8_t kComplete = 1;
constexpr std::string_view kExtension = ".segment";
constexpr std::size_t kNumberDigits = 16;

void PutLittle(char* out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(value >> (8 * i));
}

// Returns the checksum of bytes at a place of a segment. The same bytes at another place have
// another checksum.
std::uint32_t CrcAt(const SegmentIdentity& identity, std::uint64_t offset, std::string_view bytes) {
  std::array<char, 32> place;
  PutLittle(place.data(), identity.number, 8);
  PutLittle(place.data() + 8, offset, 8);
  std::copy(identity.queue_id.begin(), identity.queue_id.end(), place.begin() + 16);
  return Crc32(bytes, Crc32({place.data(), place.size()}));
}

std::uint32_t FrameMagicOf(const SegmentIdentity& identity) {
  return identity.weighed ? kWeighedFrameMagic : kFrameMagic;
}

std::uint32_t FooterMagicOf(const SegmentIdentity& identity) {
  return identity.weighed ? kWeighedFooterMagic : kFooterMagic;
}

std::size_t PaddingOf(std::size_t size) { return (kAlignment - size % kAlignment) % kAlignment; }

std::size_t VarintBytes(std::uint64_t value) {
  std::size_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

// What the header of a frame says.
struct FrameHeader {
  std::uint64_t first_sequence = 0;
  std::uint32_t items = 0;
  std::uint32_t body_bytes = 0;
  std::uint8_t kind = 0;
  std::uint32_t body_crc = 0;
  std::uint32_t fields_crc = 0;  // the seed of body_crc

  std::uint64_t frame_bytes() const {
    return kFrameHeaderBytes + body_bytes + PaddingOf(body_bytes);
  }
};

// Returns the header of a frame, or nothing if the bytes are not one or are damaged.
// REQUIRES: bytes.size() >= kFrameHeaderBytes
std::optional<FrameHeader> DecodeFrameHeader(const SegmentIdentity& identity, std::uint64_t offset,
                                             std::string_view bytes) {
  Decoder in(bytes.substr(0, kFrameHeaderBytes));
  if (in.Little<std::uint32_t>() != FrameMagicOf(identity)) return std::nullopt;
  const auto check = in.Little<std::uint32_t>();
  FrameHeader header;
  header.first_sequence = in.Little<std::uint64_t>();
  header.items = in.Little<std::uint32_t>();
  header.body_bytes = in.Little<std::uint32_t>();
  header.kind = in.Little<std::uint8_t>();
  in.Bytes(3);
  header.body_crc = in.Little<std::uint32_t>();
  header.fields_crc = CrcAt(identity, offset, bytes.substr(kFieldsBegin, kFieldsBytes));
  if (Crc32(bytes.substr(kBodyCrcAt, 4), header.fields_crc) != check) return std::nullopt;
  const bool sensible = header.items > 0 && header.items <= header.body_bytes &&
                        header.first_sequence <= UINT64_MAX - header.items &&
                        (header.kind == kComplete || header.kind == kContinues);
  return sensible ? std::optional(header) : std::nullopt;
}

// Sets the items of `block`, and their weights, to those of a frame's body. Returns false if the
// body is malformed.
bool DecodeItems(const FrameHeader& header, bool weighed, std::string_view body, Block* block) {
  Decoder in(body);
  block->items.clear();
  block->weights.clear();
  block->weight_before = weighed ? in.Varint() : 0;
  // The lengths come first, and the items begin behind the last of them. So this gives each item
  // its length first and moves it to its place later.
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < header.items; ++i) {
    const std::uint64_t size = in.Varint();
    if (!in.ok() || size > body.size()) return false;
    block->items.emplace_back(body.data(), static_cast<std::size_t>(size));
    total += size;
  }
  if (weighed) {
    for (std::uint32_t i = 0; i < header.items && in.ok(); ++i) {
      block->weights.push_back(in.Varint());
    }
  }
  if (!in.ok() || total != in.rest().size()) return false;
  const char* next = in.rest().data();
  for (std::string_view& item : block->items) {
    item = {next, item.size()};
    next += item.size();
  }
  return true;
}

// TopicDB's own format.
class NativeFormat : public SegmentFormat {
 public:
  NativeFormat() : SegmentFormat(kNumberDigits, kExtension, UINT64_MAX) {}

  std::size_t header_bytes() const override { return kHeaderBytes; }

  std::string EncodeHeader(const SegmentIdentity& identity) const override {
    std::string out(kFileMagic);
    AppendLittle(&out, identity.weighed ? kWeighedVersion : kVersion);
    out.append(6, '\0');
    AppendLittle(&out, identity.number);
    AppendLittle(&out, identity.first_sequence);
    AppendLittle(&out, identity.previous_end);
    out.append(identity.queue_id.data(), identity.queue_id.size());
    out.append(4, '\0');
    AppendLittle(&out, Crc32(out));
    return out;
  }

  Result<SegmentIdentity> DecodeHeader(std::string_view bytes,
                                       std::uint64_t number) const override {
    if (bytes.size() < kHeaderBytes) return Corruption("its header is cut off");
    bytes = bytes.substr(0, kHeaderBytes);
    Decoder in(bytes);
    const bool magic = in.Bytes(kFileMagic.size()) == kFileMagic;
    const auto version = in.Little<std::uint16_t>();
    in.Bytes(6);
    SegmentIdentity identity;
    identity.number = in.Little<std::uint64_t>();
    identity.first_sequence = in.Little<std::uint64_t>();
    identity.previous_end = in.Little<std::uint64_t>();
    in.Array(&identity.queue_id);
    in.Bytes(4);
    if (!magic || Crc32(bytes.substr(0, kHeaderBytes - 4)) != in.Little<std::uint32_t>()) {
      return Corruption("its header is damaged");
    }
    if (version != kVersion && version != kWeighedVersion) {
      return SchemaFault("it has format version " + std::to_string(version) + ", this is for " +
                         std::to_string(kVersion) + " and " + std::to_string(kWeighedVersion));
    }
    identity.weighed = version == kWeighedVersion;
    if (identity.number != number || identity.first_sequence == 0) {
      return Corruption("it belongs to segment " + std::to_string(identity.number));
    }
    return identity;
  }

  std::size_t footer_bytes() const override { return kFooterBytes; }

  std::string EncodeFooter(const SegmentIdentity& identity,
                           const SegmentFooter& footer) const override {
    std::string fields;
    AppendLittle(&fields, footer.first_sequence);
    AppendLittle(&fields, footer.end_sequence);
    AppendLittle(&fields, footer.payload_bytes);
    AppendLittle(&fields, footer.frames_end);
    if (identity.weighed) AppendLittle(&fields, footer.weight);
    fields.resize(kFooterBytes - kFieldsBegin, '\0');
    std::string out;
    AppendLittle(&out, FooterMagicOf(identity));
    AppendLittle(&out, CrcAt(identity, footer.frames_end, fields));
    return out + fields;
  }

  std::optional<SegmentFooter> DecodeFooter(const SegmentIdentity& identity, std::uint64_t offset,
                                            std::string_view bytes) const override {
    if (bytes.size() != kFooterBytes) return std::nullopt;
    Decoder in(bytes);
    if (in.Little<std::uint32_t>() != FooterMagicOf(identity)) return std::nullopt;
    const auto check = in.Little<std::uint32_t>();
    if (CrcAt(identity, offset, in.rest()) != check) return std::nullopt;
    SegmentFooter footer;
    footer.first_sequence = in.Little<std::uint64_t>();
    footer.end_sequence = in.Little<std::uint64_t>();
    footer.payload_bytes = in.Little<std::uint64_t>();
    footer.frames_end = in.Little<std::uint64_t>();
    if (identity.weighed) footer.weight = in.Little<std::uint64_t>();
    const bool expected =
        identity.first_sequence == 0 || footer.first_sequence == identity.first_sequence;
    const bool valid =
        expected && footer.frames_end == offset && footer.end_sequence >= footer.first_sequence;
    return valid ? std::optional(footer) : std::nullopt;
  }

  void EncodeFrames(const SegmentIdentity& identity, std::uint64_t offset,
                    std::uint64_t first_sequence, WeighedItems left,
                    std::string* out) const override {
    const auto body_bytes = [&](std::size_t i) {
      return ItemBytes(left.items[i]) + (identity.weighed ? VarintBytes(left.weights[i]) : 0);
    };
    const std::size_t begin = out->size();
    while (!left.items.empty()) {
      std::size_t count = 0;
      std::size_t body = 0;
      while (count < left.items.size() &&
             (count == 0 || body + body_bytes(count) <= kFrameBodyTarget)) {
        body += body_bytes(count++);
      }
      const std::uint64_t at = offset + (out->size() - begin);
      EncodeFrame(identity, at, first_sequence, left.First(count), count == left.items.size(), out);
      first_sequence += count;
      left.RemoveFirst(count);
    }
  }

  Parsed Parse(const SegmentIdentity& identity, std::uint64_t offset, std::uint64_t /*expected*/,
               std::string_view bytes, Block* block) const override {
    if (bytes.size() < kFrameHeaderBytes) return {Found::kShort, kFrameHeaderBytes, 0, 0};
    const auto header = DecodeFrameHeader(identity, offset, bytes);
    if (!header.has_value()) return {};
    const std::uint64_t size = header->frame_bytes();
    if (bytes.size() < size) return {Found::kShort, size, 0, 0};
    const std::string_view padded = bytes.substr(kFrameHeaderBytes, size - kFrameHeaderBytes);
    if (Crc32(padded, header->fields_crc) != header->body_crc ||
        !DecodeItems(*header, identity.weighed, padded.substr(0, header->body_bytes), block)) {
      return {Found::kDamaged, size, header->first_sequence, header->items};
    }
    block->first_sequence = header->first_sequence;
    block->offset = offset;
    block->end_offset = offset + size;
    block->continues = header->kind == kContinues;
    return {Found::kBlock, size, 0, 0};
  }

  std::size_t NextCandidate(std::uint64_t offset, std::string_view bytes) const override {
    std::size_t at = kAlignment - static_cast<std::size_t>(offset % kAlignment);
    for (; at + sizeof(kFrameMagic) <= bytes.size(); at += kAlignment) {
      const auto magic = Decoder(bytes.substr(at)).Little<std::uint32_t>();
      if (magic == kFrameMagic || magic == kWeighedFrameMagic) return at;
    }
    return bytes.size();
  }

  std::uint64_t ItemBytes(std::string_view item) const override {
    return item.size() + VarintBytes(item.size());
  }
  std::uint64_t FirstSequence(std::uint64_t /*number*/,
                              std::uint64_t next_sequence) const override {
    return next_sequence;
  }
  bool numbers_items() const override { return true; }

 private:
  static void EncodeFrame(const SegmentIdentity& identity, std::uint64_t offset,
                          std::uint64_t first_sequence, const WeighedItems& of, bool complete,
                          std::string* out) {
    const std::size_t begin = out->size();
    out->append(kFrameHeaderBytes, '\0');
    if (identity.weighed) AppendVarint(out, of.weight_before);
    for (const std::string_view item : of.items) AppendVarint(out, item.size());
    for (const std::uint64_t weight : of.weights) AppendVarint(out, weight);
    for (const std::string_view item : of.items) out->append(item);
    const std::size_t body_bytes = out->size() - begin - kFrameHeaderBytes;
    out->append(PaddingOf(body_bytes), '\0');

    char* const header = out->data() + begin;
    PutLittle(header, FrameMagicOf(identity), 4);
    PutLittle(header + kFieldsBegin, first_sequence, 8);
    PutLittle(header + kFieldsBegin + 8, of.items.size(), 4);
    PutLittle(header + kBodyBytesAt, body_bytes, 4);
    header[kBodyBytesAt + 4] = static_cast<char>(complete ? kComplete : kContinues);
    StampNativeFrame(identity, offset, std::span(header, out->size() - begin));
  }
};

}  // namespace

void StampNativeFrame(const SegmentIdentity& identity, std::uint64_t offset,
                      std::span<char> frame) {
  char* const header = frame.data();
  const std::uint32_t fields_crc = CrcAt(identity, offset, {header + kFieldsBegin, kFieldsBytes});
  const std::string_view padded(header + kFrameHeaderBytes, frame.size() - kFrameHeaderBytes);
  PutLittle(header + kBodyCrcAt, Crc32(padded, fields_crc), 4);
  PutLittle(header + kCheckAt, Crc32({header + kBodyCrcAt, 4}, fields_crc), 4);
}

const SegmentFormat& NativeSegmentFormat() {
  static const NativeFormat format;
  return format;
}

}  // namespace topicdb
