#include "layout/columnar/format/page.h"

#include <algorithm>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/page_format.h"

namespace topicdb::columnar {

void Extent::Include(std::int64_t time, Serial serial) {
  first_time = std::min(first_time, time);
  last_time = std::max(last_time, time);
  first_serial = std::min(first_serial, serial);
  last_serial = std::max(last_serial, serial);
}

void Extent::Include(const Extent& other) {
  Include(other.first_time, other.first_serial);
  Include(other.last_time, other.last_serial);
}

Status PageFault(const char* what) {
  return Corruption(std::string("a page of messages is damaged: ") + what);
}

void AppendHeader(const PageHeader& header, std::string* out) {
  out->push_back(static_cast<char>(header.kind));
  out->push_back(static_cast<char>(header.form));
  out->push_back(static_cast<char>(header.codec));
  out->push_back('\0');
  AppendLittle(out, header.rows);
  AppendLittle(out, header.topics);
  AppendLittle(out, header.runs);
  AppendLittle(out, static_cast<std::uint64_t>(header.extent.first_time));
  AppendLittle(out, static_cast<std::uint64_t>(header.extent.last_time));
  AppendLittle(out, header.extent.first_serial.value());
  AppendLittle(out, header.extent.last_serial.value());
  AppendLittle(out, header.kind == PageKind::kPlain ? header.topic_bytes : header.body_bytes);
  AppendLittle(out, header.value_bytes);
  AppendLittle(out, header.stored_bytes);
  AppendLittle<std::uint32_t>(out, 0);
}

std::uint32_t ChecksumOf(std::string_view record) {
  return Decoder(record.substr(record.size() - kCrcBytes)).Little<std::uint32_t>();
}

Result<PageHeader> ReadHeader(std::string_view page) {
  if (page.size() < kHeaderBytes + kCrcBytes) return PageFault("it is too short");
  if (Crc32(page.substr(0, page.size() - kCrcBytes)) != ChecksumOf(page)) {
    return PageFault("its checksum is wrong");
  }
  Decoder decoder(page);
  const auto kind = decoder.Little<std::uint8_t>();
  const auto version = decoder.Little<std::uint8_t>();
  const auto codec = decoder.Little<std::uint8_t>();
  const auto reserved = decoder.Little<std::uint8_t>();
  PageHeader header;
  header.kind = static_cast<PageKind>(kind);
  header.form = static_cast<PageForm>(version);
  header.codec = static_cast<PageCodec>(codec);
  const bool is_plain = header.kind == PageKind::kPlain && header.codec == PageCodec::kNone &&
                        header.form == PageForm::kTogether;
  const bool is_packed = header.kind == PageKind::kPacked &&
                         (header.codec == PageCodec::kZstd || header.codec == PageCodec::kLz4) &&
                         (header.form == PageForm::kTogether || header.form == PageForm::kApart);
  if (reserved != 0 || (!is_plain && !is_packed)) {
    return PageFault("its kind, codec or version is unknown");
  }
  header.rows = decoder.Little<std::uint32_t>();
  header.topics = decoder.Little<std::uint32_t>();
  header.runs = decoder.Little<std::uint32_t>();
  header.extent.first_time = static_cast<std::int64_t>(decoder.Little<std::uint64_t>());
  header.extent.last_time = static_cast<std::int64_t>(decoder.Little<std::uint64_t>());
  header.extent.first_serial = Serial{decoder.Little<std::uint64_t>()};
  header.extent.last_serial = Serial{decoder.Little<std::uint64_t>()};
  (header.kind == PageKind::kPlain ? header.topic_bytes : header.body_bytes) =
      decoder.Little<std::uint32_t>();
  header.value_bytes = decoder.Little<std::uint32_t>();
  header.stored_bytes = decoder.Little<std::uint32_t>();
  const auto reserved_end = decoder.Little<std::uint32_t>();
  if (reserved_end != 0 || header.rows == 0 || header.rows > kPageRowsMax || header.topics == 0 ||
      header.topics > header.rows || header.runs > header.rows ||
      header.topic_bytes > kPageBytesMax || header.body_bytes > kPageBytesMax ||
      header.value_bytes > kPageBytesMax ||
      page.size() != kHeaderBytes + std::size_t{header.stored_bytes} + kCrcBytes) {
    return PageFault("its header is malformed");
  }
  return header;
}

Result<std::shared_ptr<const Page>> Page::Decode(StoredPage stored, PageParts parts,
                                                 const Placement* placement) {
  const std::shared_ptr<Page> page(new Page);
  const auto keys = std::make_shared<const std::string>(std::move(stored.keys));
  TOPICDB_RETURN_IF_ERROR(page->DecodeRecords(*keys, stored.values, keys, parts, placement));
  return std::shared_ptr<const Page>(page);
}

Result<std::shared_ptr<const Page>> Page::Decode(std::string_view bytes,
                                                 std::shared_ptr<const void> owner) {
  return Decode(bytes, {}, std::move(owner), PageParts::kAll, nullptr);
}

Result<std::shared_ptr<const Page>> Page::Decode(std::string_view keys, std::string_view values,
                                                 std::shared_ptr<const void> owner, PageParts parts,
                                                 const Placement* placement) {
  const std::shared_ptr<Page> page(new Page);
  TOPICDB_RETURN_IF_ERROR(page->DecodeRecords(keys, values, std::move(owner), parts, placement));
  return std::shared_ptr<const Page>(page);
}

Status Page::DecodeRecords(std::string_view keys, std::string_view values,
                           std::shared_ptr<const void> owner, PageParts parts,
                           const Placement* placement) {
  TOPICDB_ASSIGN_OR_RETURN(const PageHeader header, ReadHeader(keys));
  if (placement != nullptr && header.kind != PageKind::kPacked) {
    return PageFault("its kind is not that of a staged page");
  }
  if (!values.empty() && header.form != PageForm::kApart) {
    return PageFault("it has values of its own and others");
  }
  rows_ = header.rows;
  extent_ = header.extent;
  has_values_ = parts == PageParts::kAll;
  if (header.kind == PageKind::kPlain) {
    stored_ = keys;
    owner_ = std::move(owner);
    TOPICDB_RETURN_IF_ERROR(PlainDecoder::Decode(header, this));
    if (!has_values_) values_ = {};
  } else {
    TOPICDB_RETURN_IF_ERROR(PackedDecoder::Decode(header, keys, values, parts, placement, this));
  }
  signed_offsets_ = {reinterpret_cast<const std::int32_t*>(value_offsets_.data()),
                     value_offsets_.size()};
  return Status::Ok();
}

std::size_t Page::memory_bytes() const {
  return sizeof(Page) + stored_.size() + own_topics_.capacity() + body_bytes_ + numbers_bytes_;
}

}  // namespace topicdb::columnar
