#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace topicdb {

// Removes the number with which `text` begins, and returns it. Returns nothing if the text does not
// begin with a digit, or if the number has more than 64 bits.
inline std::optional<std::uint64_t> TakeDecimal(std::string_view* text) {
  std::uint64_t value = 0;
  std::size_t digits = 0;
  for (; digits < text->size() && (*text)[digits] >= '0' && (*text)[digits] <= '9'; ++digits) {
    const auto digit = static_cast<std::uint64_t>((*text)[digits] - '0');
    if (value > (UINT64_MAX - digit) / 10) return std::nullopt;
    value = 10 * value + digit;
  }
  if (digits == 0) return std::nullopt;
  text->remove_prefix(digits);
  return value;
}

}  // namespace topicdb
