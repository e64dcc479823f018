// Sizes of memory that are multiples of something.
#pragma once

#include <cstddef>

namespace topicdb {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Returns the smallest multiple of `step` that is at least `bytes`. REQUIRES: step > 0
constexpr std::size_t RoundUp(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

}  // namespace topicdb
