#include "segment/segment_format.h"

#include <algorithm>
#include <numeric>

#include "base/bytes/decimal.h"

namespace topicdb {

WeighedItems WeighedItems::First(std::size_t count) const {
  WeighedItems first = *this;
  first.items = items.first(count);
  first.weights = weights.first(std::min(count, weights.size()));
  return first;
}

void WeighedItems::RemoveFirst(std::size_t count) {
  weight_before += First(count).Weight();
  items = items.subspan(count);
  weights = weights.subspan(std::min(count, weights.size()));
}

std::uint64_t WeighedItems::Weight() const {
  return std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
}

std::uint64_t Block::weight_behind() const {
  return std::accumulate(weights.begin(), weights.end(), weight_before);
}

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
