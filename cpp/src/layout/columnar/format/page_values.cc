// The record of a packed page's values, if the page is two records. All numbers are little-endian:
//
//   kind           u8, 3
//   version        u8, 2
//   codec          u8
//   reserved       u8, 0
//   rows           u32
//   value bytes    u32, before compression
//   stored bytes   u32, after it
//   keys           u32, the checksum with which the record of the page's keys ends
//   values         one behind the other, compressed
//   checksum       u32, of everything before

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/page_format.h"

namespace topicdb::columnar {

namespace {

constexpr std::uint8_t kValuesKind = 3;  // no PageKind has this value

}  // namespace

void AppendHeader(const ValuesHeader& header, std::string* out) {
  out->push_back(static_cast<char>(kValuesKind));
  out->push_back(static_cast<char>(PageForm::kApart));
  out->push_back(static_cast<char>(header.codec));
  out->push_back('\0');
  AppendLittle(out, header.rows);
  AppendLittle(out, header.value_bytes);
  AppendLittle(out, header.stored_bytes);
  AppendLittle(out, header.keys_checksum);
}

Result<ValuesHeader> ReadValuesHeader(std::string_view record) {
  if (record.size() < kValuesHeaderBytes + kCrcBytes) return PageFault("its values are too short");
  if (Crc32(record.substr(0, record.size() - kCrcBytes)) != ChecksumOf(record)) {
    return PageFault("the checksum of its values is wrong");
  }
  Decoder decoder(record);
  const auto kind = decoder.Little<std::uint8_t>();
  const auto version = decoder.Little<std::uint8_t>();
  const auto codec = decoder.Little<std::uint8_t>();
  const auto reserved = decoder.Little<std::uint8_t>();
  ValuesHeader header;
  header.codec = static_cast<PageCodec>(codec);
  header.rows = decoder.Little<std::uint32_t>();
  header.value_bytes = decoder.Little<std::uint32_t>();
  header.stored_bytes = decoder.Little<std::uint32_t>();
  header.keys_checksum = decoder.Little<std::uint32_t>();
  const bool is_compressed = header.codec == PageCodec::kZstd || header.codec == PageCodec::kLz4;
  if (kind != kValuesKind || version != static_cast<std::uint8_t>(PageForm::kApart) ||
      reserved != 0 || !is_compressed) {
    return PageFault("the kind, codec or version of its values is unknown");
  }
  if (header.value_bytes > kPageBytesMax ||
      record.size() != kValuesHeaderBytes + std::size_t{header.stored_bytes} + kCrcBytes) {
    return PageFault("the header of its values is malformed");
  }
  return header;
}

}  // namespace topicdb::columnar
