#include "base/bytes/checked_record.h"

#include <cstdint>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"

namespace topicdb {

std::string CloseRecord(std::string record) {
  AppendLittle<std::uint32_t>(&record, Crc32(record));
  return record;
}

std::optional<std::string_view> OpenRecord(std::string_view record, std::string_view head) {
  constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);
  if (record.size() < head.size() + kCrcBytes || !record.starts_with(head)) return std::nullopt;
  const std::string_view content = record.substr(0, record.size() - kCrcBytes);
  Decoder tail(record.substr(content.size()));
  if (tail.Little<std::uint32_t>() != Crc32(content)) return std::nullopt;
  return content.substr(head.size());
}

}  // namespace topicdb
