// Parts of a database that a call is about: times, topics, commits.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "topicdb/topic.h"

namespace topicdb {

// start <= timestamp < end; an absent bound is none.
struct TimeRange {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> end;

  bool operator==(const TimeRange&) const = default;
};

inline bool Contains(const TimeRange& range, std::int64_t timestamp) {
  return timestamp >= range.start.value_or(0) && (!range.end.has_value() || timestamp < *range.end);
}

// One moment.
inline TimeRange Instant(std::int64_t timestamp) {
  const bool last = timestamp == std::numeric_limits<std::int64_t>::max();
  return {timestamp, last ? std::nullopt : std::optional(timestamp + 1)};
}

// Messages of a filter in a time range.
struct KeyRange {
  Filter filter;
  TimeRange range;
};

// Commits of one shard behind `after` up to `until`.
struct CommitRange {
  std::uint64_t after = 0;
  std::optional<std::uint64_t> until;  // absent: the last one there is
  TimeRange times;                     // other messages do not count
  // May end where a block does, behind half of the bytes: who reads from there reads no block in
  // vain.
  bool whole_blocks = false;
};

struct CommitSpan {
  std::uint64_t until = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  // of their topics and values
};

}  // namespace topicdb
