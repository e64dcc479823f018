// Counts of messages, in groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace topicdb {

// Says how Database::Summarize groups messages. Without any of this, all messages are one group.
struct SummaryOptions {
  static constexpr std::uint32_t kAllLevels = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::int64_t kSpanMax = std::int64_t{1} << 60;  // 36,000 years
  static constexpr std::size_t kGroupsMax = 1'000'000;

  // Messages are in one group if their topics begin with the same levels, this many. A topic with
  // fewer levels counts as a whole, and so does each topic with kAllLevels. 0: topics do not
  // matter.
  std::uint32_t topic_levels = 0;
  // If this is there, messages are in one group only if their times are in one span of this many
  // microseconds, from 1 to kSpanMax. Spans begin at `span_origin` and at multiples of `span` from
  // it.
  std::optional<std::int64_t> span;
  std::int64_t span_origin = 0;
  // Summarize returns kInvalidArgument rather than more groups.
  std::size_t groups_max = kGroupsMax;
  // Summarize returns kInvalidArgument rather than read more messages than about this many one by
  // one. Messages that count as whole blocks or pages are not read.
  std::uint64_t rows_max = std::numeric_limits<std::uint64_t>::max();
};

// What Database::Summarize tells of one group of messages. There is at least one message in it.
struct MessageGroup {
  std::string topic;  // the levels by which the messages were grouped; may be empty
  std::optional<std::int64_t> span_start;  // when their span begins; absent: not grouped by time
  std::uint64_t messages = 0;
  std::int64_t first_time = 0;  // the smallest timestamp
  std::int64_t last_time = 0;   // the greatest timestamp

  bool operator==(const MessageGroup&) const = default;
};

}  // namespace topicdb
