// The parts of a database that a call is about: times, topics and commits.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "topicdb/topic.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// The timestamps from `start` on and before `end`. An absent bound does not limit.
struct TimeRange {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> end;

  bool operator==(const TimeRange&) const = default;
};

// Returns whether the timestamp is in the range. Negative timestamps are in no range without a
// start.
inline bool Contains(const TimeRange& range, std::int64_t timestamp) {
  return timestamp >= range.start.value_or(0) && (!range.end.has_value() || timestamp < *range.end);
}

// Returns the range that contains only this timestamp.
inline TimeRange Instant(std::int64_t timestamp) {
  const bool last = timestamp == std::numeric_limits<std::int64_t>::max();
  return {timestamp, last ? std::nullopt : std::optional(timestamp + 1)};
}

// The messages of a filter in a time range.
struct KeyRange {
  Filter filter;
  TimeRange range;
};

// The commits of one shard after the commit `after`, up to and including `until`.
struct CommitRange {
  Serial after;
  std::optional<Serial> until;  // absent: the last commit there is
  TimeRange times;              // messages at other times do not count
  // If true, the span may end where a block ends, once it has half of PageLimits::bytes_max. Then
  // the next read need not read that block again.
  bool whole_blocks = false;
};

// What Database::MeasureLog has counted: the commits of a CommitRange up to and including `until`.
struct CommitSpan {
  Serial until;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  // of the topics and values of these messages
};

}  // namespace topicdb
