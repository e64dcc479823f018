#include "base/bytes/crc32c.h"

#include <array>
#include <cstddef>

namespace topicdb {

namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;
constexpr std::size_t kStep = 8;  // bytes that are taken at once, each with a table of its own

using Tables = std::array<std::array<std::uint32_t, 256>, kStep>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t i = 1; i < kStep; ++i) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[i - 1][byte];
      tables[i][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

std::uint32_t LittleWord(std::string_view bytes) {
  std::uint32_t word = 0;
  for (std::size_t i = 4; i-- > 0;) word = (word << 8) | static_cast<unsigned char>(bytes[i]);
  return word;
}

}  // namespace

std::uint32_t Crc32c(std::string_view bytes, std::uint32_t seed) {
  std::uint32_t crc = ~seed;
  while (bytes.size() >= kStep) {
    const std::uint32_t low = crc ^ LittleWord(bytes);
    const std::uint32_t high = LittleWord(bytes.substr(4));
    crc = kTables[7][low & 0xFF] ^ kTables[6][(low >> 8) & 0xFF] ^ kTables[5][(low >> 16) & 0xFF] ^
          kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^ kTables[2][(high >> 8) & 0xFF] ^
          kTables[1][(high >> 16) & 0xFF] ^ kTables[0][high >> 24];
    bytes.remove_prefix(kStep);
  }
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~crc;
}

}  // namespace topicdb
