#include "segment/segment_format.h"

#include <algorithm>

#include "base/bytes/decimal.h"

namespace topicdb {

std::string SegmentFormat::FileName(std::uint64_t number) const {
  const std::string digits = std::to_string(number);
  return std::string(name_digits_ - std::min(name_digits_, digits.size()), '0') + digits +
         extension_;
}

std::optional<std::uint64_t> SegmentFormat::NumberOf(std::string_view file_name) const {
  std::string_view rest = file_name;
  const auto number = TakeDecimal(&rest);
  const bool valid = number.value_or(0) > 0 && *number <= number_max_;
  return valid && FileName(*number) == file_name ? number : std::nullopt;
}

}  // namespace topicdb
