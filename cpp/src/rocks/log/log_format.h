// How RocksDB stores records in its logs (db/log_format.h). A log has blocks, and a block has
// pieces, each of checksum, length, type and payload. A record is one piece, or several if it
// crosses the end of a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes/coding.h"
#include "base/bytes/crc32c.h"

namespace topicdb::rocks {

inline constexpr std::size_t kLogBlockBytes = 32'768;
inline constexpr std::size_t kPieceHeaderBytes = 7;
inline constexpr std::size_t kPieceTypeAt = 6;

// Which part of a record a piece is. RocksDB's logs have these numbers.
enum PieceType : unsigned char {
  kWholeRecord = 1,
  kFirstOfRecord = 2,
  kMiddleOfRecord = 3,
  kLastOfRecord = 4,
};

// What stands before the payload of a piece.
struct PieceHeader {
  std::uint32_t checksum = 0;
  std::size_t length = 0;  // of the payload
  unsigned char type = 0;
};

// Returns the header with which `bytes` begins. REQUIRES: bytes.size() >= kPieceHeaderBytes
inline PieceHeader ParsePieceHeader(std::string_view bytes) {
  Decoder decoder(bytes);
  PieceHeader header;
  header.checksum = decoder.Little<std::uint32_t>();
  header.length = decoder.Little<std::uint16_t>();
  header.type = decoder.Little<std::uint8_t>();
  return header;
}

// Returns the checksum over the type and the payload, not the length, masked as RocksDB does.
inline std::uint32_t PieceChecksum(std::string_view type, std::string_view payload) {
  constexpr std::uint32_t kDelta = 0xa282ead8;
  const std::uint32_t crc = Crc32c(payload, Crc32c(type));
  return ((crc >> 15) | (crc << 17)) + kDelta;
}

}  // namespace topicdb::rocks
