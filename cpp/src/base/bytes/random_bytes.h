// Random bytes, for ids that nobody else has.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

namespace topicdb {

// Returns bytes that the operating system has drawn.
template <std::size_t kCount>
std::array<std::uint8_t, kCount> RandomBytes() {
  std::array<std::uint8_t, kCount> bytes{};
  std::random_device random;
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

}  // namespace topicdb
