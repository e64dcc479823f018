#include "layout/skipstream/skipstream_keys.h"

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"

namespace topicdb::skipstream {

void AppendDataPrefix(std::string* out, StreamId stream) {
  AppendBig<std::uint32_t>(out, stream.value());
  AppendBig<std::uint16_t>(out, kDataLevel);
}

void AppendIndexPrefix(std::string* out, StreamId stream, std::size_t varying_index,
                       std::string_view word) {
  AppendBig<std::uint32_t>(out, stream.value());
  AppendBig<std::uint16_t>(out, static_cast<std::uint16_t>(varying_index + 1));
  AppendBig<std::uint64_t>(out, Hash64(word));
}

void AppendTime(std::string* out, std::int64_t timestamp, std::uint32_t timestamp_bytes) {
  if (timestamp_bytes != 0) AppendBig<std::uint64_t>(out, static_cast<std::uint64_t>(timestamp));
}

void AppendWords(std::string* out, std::span<const std::string_view> words) {
  for (const std::string_view word : words) {
    out->append(word);
    out->push_back('\0');
  }
}

bool DecodeSuffix(std::string_view suffix, std::uint32_t timestamp_bytes, DecodedSuffix* out) {
  out->timestamp = 0;
  if (timestamp_bytes != 0) {
    if (suffix.size() < sizeof(std::uint64_t)) return false;
    out->timestamp = static_cast<std::int64_t>(ReadBig<std::uint64_t>(suffix));
    if (out->timestamp < 0) return false;
    suffix.remove_prefix(sizeof(std::uint64_t));
  }
  out->words_bytes = suffix;
  out->words.clear();
  while (!suffix.empty()) {
    const std::size_t end = suffix.find('\0');
    if (end == std::string_view::npos) return false;
    out->words.push_back(suffix.substr(0, end));
    suffix.remove_prefix(end + 1);
  }
  return true;
}

void AppendValueHeader(std::string* out, Serial serial, std::uint32_t index) {
  out->push_back(static_cast<char>(kValueVersion));
  AppendVarint(out, serial.value());
  AppendVarint(out, index);
}

bool DecodeValue(std::string_view bytes, DecodedValue* out) {
  Decoder decoder(bytes);
  const auto version = decoder.Little<std::uint8_t>();
  out->serial = Serial{decoder.Varint()};
  const std::uint64_t index = decoder.Varint();
  out->index = static_cast<std::uint32_t>(index);
  out->value = decoder.rest();
  return decoder.ok() && version == kValueVersion && index == out->index;
}

}  // namespace topicdb::skipstream
