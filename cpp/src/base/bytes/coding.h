// Encodes numbers and strings as bytes. Numbers are little-endian in records. In keys they are
// big-endian, so that the order of the bytes is the order of the numbers. Varints are LEB128 as in
// protobuf.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace topicdb {

template <typename Unsigned>
// Appends a number, its lowest byte first.
void AppendLittle(std::string* out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    out->push_back(static_cast<char>(value & 0xff));
    value = static_cast<Unsigned>(value >> 8);
  }
}

template <typename Unsigned>
// Appends a number, its highest byte first.
void AppendBig(std::string* out, Unsigned value) {
  for (std::size_t i = sizeof(Unsigned); i-- > 0;) {
    out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

// Returns the number with which `bytes` begins, its highest byte first.
// REQUIRES: bytes.size() >= sizeof(Unsigned)
template <typename Unsigned>
Unsigned ReadBig(std::string_view bytes) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value = static_cast<Unsigned>((value << 8) | static_cast<unsigned char>(bytes[i]));
  }
  return value;
}

void AppendVarint(std::string* out, std::uint64_t value);
// Appends the length as a varint, then the bytes.
void AppendPrefixed(std::string* out, std::string_view bytes);

// Reads fields from the front of a byte string, which must outlive it and the strings that it
// returns. A read past the end or of a malformed varint makes it fail for good: later reads return
// zeros and empty strings, so that the caller may check ok() once at the end. Not thread-safe.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  template <typename Unsigned>
  Unsigned Little() {
    const std::string_view bytes = Bytes(sizeof(Unsigned));
    Unsigned value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      value = static_cast<Unsigned>((value << 8) | static_cast<unsigned char>(bytes[i]));
    }
    return value;
  }
  template <typename Unsigned>
  Unsigned Big() {
    const std::string_view bytes = Bytes(sizeof(Unsigned));
    return bytes.empty() ? Unsigned{0} : ReadBig<Unsigned>(bytes);
  }
  // Returns a number that AppendVarint has encoded. More than 64 bits are malformed.
  std::uint64_t Varint();
  std::string_view Bytes(std::size_t size);
  // Reads as many bytes as the array has. If there are fewer, leaves it as it is.
  template <typename Byte, std::size_t kSize>
  void Array(std::array<Byte, kSize>* array) {
    static_assert(sizeof(Byte) == 1);
    const std::string_view bytes = Bytes(kSize);
    std::copy(bytes.begin(), bytes.end(), array->begin());
  }
  // Returns bytes that AppendPrefixed has encoded.
  std::string_view Prefixed();

  // Says that what was read is malformed, so that nothing more is read.
  void Refuse() { Fail(); }

  bool ok() const { return ok_; }
  // Returns what was not read yet; empty after a failure.
  std::string_view rest() const { return rest_; }
  // Returns whether everything was read, and all of it was well-formed.
  bool Finished() const { return ok_ && rest_.empty(); }

 private:
  std::string_view Fail();

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace topicdb
