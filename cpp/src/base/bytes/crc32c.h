// CRC-32C (Castagnoli: polynomial 0x1EDC6F41 reflected), which RocksDB's logs use.
#pragma once

#include <cstdint>
#include <string_view>

namespace topicdb {

// Returns the checksum of the bytes. With the checksum of earlier bytes as `seed`, returns that of
// both together.
std::uint32_t Crc32c(std::string_view bytes, std::uint32_t seed = 0);

}  // namespace topicdb
