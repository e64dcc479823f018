#include "base/bytes/crc32.h"

#include <libdeflate.h>

namespace topicdb {

std::uint32_t Crc32(std::string_view bytes, std::uint32_t seed) {
  // libdeflate answers 0 for a null pointer whatever the seed is.
  return bytes.empty() ? seed : libdeflate_crc32(seed, bytes.data(), bytes.size());
}

}  // namespace topicdb
