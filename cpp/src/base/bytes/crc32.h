// CRC-32 (ISO-HDLC: polynomial 0x04C11DB7 reflected, as zlib, Spark SQL and gzip), by libdeflate.
#pragma once

#include <cstdint>
#include <string_view>

namespace topicdb {

// Returns the checksum of the bytes. With the checksum of earlier bytes as `seed`, returns that of
// both together.
std::uint32_t Crc32(std::string_view bytes, std::uint32_t seed = 0);

}  // namespace topicdb
