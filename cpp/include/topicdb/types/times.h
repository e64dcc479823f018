// Points of time and durations, which TopicDB counts in microseconds. A duration is a
// std::chrono::microseconds. A point of time belongs to one clock, and the compiler refuses to
// compare it with a point of time of another clock.
//
// A timestamp of a message is a std::int64_t, because its producer may give any number. Call
// TimestampAt to make one of the time that a clock shows.
#pragma once

#include <chrono>
#include <cstdint>

namespace topicdb {

// What the clock of the system shows, which may be set: the time since 1970-01-01 UTC.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

// Returns the microseconds between the beginning of a clock and `time`. Formats and Python have
// times in this form.
template <typename Clock>
constexpr std::int64_t MicrosecondsOf(
    std::chrono::time_point<Clock, std::chrono::microseconds> time) {
  return time.time_since_epoch().count();
}

// Returns the time that is `microseconds` after the beginning of its clock, as the inverse of
// MicrosecondsOf.
template <typename Time>
constexpr Time TimeAt(std::int64_t microseconds) {
  return Time(std::chrono::microseconds(microseconds));
}

// Returns the timestamp of a message that was received or sent at `time`.
constexpr std::int64_t TimestampAt(WallTime time) { return MicrosecondsOf(time); }

}  // namespace topicdb
