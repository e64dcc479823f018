#include "base/bytes/coding.h"

namespace topicdb {

namespace {
constexpr int kVarintBytesMax = 10;
}

void AppendVarint(std::string* out, std::uint64_t value) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>((value & 0x7f) | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void AppendPrefixed(std::string* out, std::string_view bytes) {
  AppendVarint(out, bytes.size());
  out->append(bytes);
}

std::string_view Decoder::Fail() {
  ok_ = false;
  rest_ = {};
  return {};
}

std::string_view Decoder::Bytes(std::size_t size) {
  if (!ok_ || size > rest_.size()) return Fail();
  const std::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

std::uint64_t Decoder::Varint() {
  std::uint64_t value = 0;
  for (int i = 0; i < kVarintBytesMax && static_cast<std::size_t>(i) < rest_.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest_[static_cast<std::size_t>(i)]);
    if (i == kVarintBytesMax - 1 && byte > 1) break;  // more than 64 bits
    value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(static_cast<std::size_t>(i) + 1);
      return value;
    }
  }
  Fail();
  return 0;
}

std::string_view Decoder::Prefixed() {
  const std::uint64_t size = Varint();
  return size > rest_.size() ? Fail() : Bytes(static_cast<std::size_t>(size));
}

}  // namespace topicdb
