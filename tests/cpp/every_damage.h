// Makes damaged copies of stored bytes, for tests of what decodes them.
#pragma once

#include <cstddef>
#include <string>

namespace topicdb {

// Calls check(bytes) with a bit of each byte flipped in turn, and with each shorter prefix.
template <typename Check>
void ForEachDamage(const std::string& bytes, Check check) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    check(flipped);
    check(bytes.substr(0, i));
  }
}

}  // namespace topicdb
