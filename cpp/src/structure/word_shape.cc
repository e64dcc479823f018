#include "structure/word_shape.h"

#include <algorithm>

namespace topicdb {

namespace {

// Hexadecimal text of at least this many digits is taken for an identifier if one of them is
// decimal.
constexpr std::size_t kIdentifierDigitsMin = 6;
constexpr std::string_view kSeparators = "-_.:;, ";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Returns the shape of a part of a word, which has no separators.
std::string PartShape(std::string_view part) {
  if (std::none_of(part.begin(), part.end(), IsDigit)) return std::string(part);
  const std::string_view digits = part.starts_with("0x") ? part.substr(2) : part;
  if (digits.size() >= kIdentifierDigitsMin &&
      std::all_of(digits.begin(), digits.end(), IsHexDigit)) {
    return "x";
  }
  std::string shape;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (!IsDigit(part[i])) {
      shape += part[i];
    } else if (i == 0 || !IsDigit(part[i - 1])) {
      shape += '0';
      ++runs;
    }
  }
  return runs > 1 ? "x" : shape;  // letters and digits in turns
}

}  // namespace

std::string WordShape(std::string_view word) {
  std::string shape;
  while (true) {
    const std::size_t end = word.find_first_of(kSeparators);
    shape += PartShape(word.substr(0, end));
    if (end == std::string_view::npos) return shape;
    shape += word[end];
    word.remove_prefix(end + 1);
  }
}

}  // namespace topicdb
