// 64-bit XXH3 (xxHash 0.8: its output is fixed for good, so it may be stored).
#pragma once

#include <cstdint>
#include <string_view>

#include <xxhash.h>

namespace topicdb {

inline std::uint64_t Hash64(std::string_view bytes, std::uint64_t seed = 0) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace topicdb
