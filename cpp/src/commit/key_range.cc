#include "commit/key_range.h"

#include <algorithm>
#include <limits>

namespace topicdb {

std::string Describe(const KeyRange& keys) {
  std::string text = "'" + keys.filter.text() + "'";
  if (keys.range.start.has_value()) text += " from " + std::to_string(*keys.range.start);
  if (keys.range.end.has_value()) text += " to " + std::to_string(*keys.range.end);
  return text;
}

bool Intersects(const TimeRange& a, const TimeRange& b) {
  const std::int64_t start = std::max(a.start.value_or(0), b.start.value_or(0));
  return Contains(a, start) && Contains(b, start);
}

bool IsPoint(const KeyRange& keys) {
  const std::int64_t start = keys.range.start.value_or(0);
  return keys.filter.is_topic() && keys.range.end.has_value() && *keys.range.end - 1 == start;
}

}  // namespace topicdb
