// Time as a database needs it, although the system's clock leaps.
//
// The clock of the day is set: by hand, by NTP after a start in 1970, by a host that had its guest
// paused. How long ago something was is told by another clock, that of the time since the machine
// was started, which also counts while it sleeps. What one shows more than the other is a leap.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/thread/mutex.h"

namespace topicdb {

// Where a LeapClock is, to go on from there in another process.
struct LeapRecord {
  ClockReading at;  // when the clocks were last looked at
  // Sum of all leaps. A time that was noted as NotedUs() is, by the clock of today, so much later.
  std::int64_t leaps_us = 0;
  // By so much the clock was ahead of `at` when the machine was started anew, and nothing tells
  // whether that time has passed; 0 once it counts as passed.
  std::int64_t unproven_us = 0;
  std::int64_t unproven_since_us = 0;  // boot_us
  // By so much the clock is ahead of what is believed.
  std::int64_t held_us = 0;
  std::int64_t held_since_us = 0;  // boot_us
  bool operator==(const LeapRecord&) const = default;
};

// Thread-safe.
class LeapClock {
 public:
  // A clock that goes ahead by no more is believed at once: guests are paused, and laptops closed.
  static constexpr std::int64_t kBelievedLeapUs = std::int64_t{24} * 3'600 * 1'000'000;
  // One that goes further ahead has to stay there so long, by the other clock.
  static constexpr std::int64_t kSettleUs = std::int64_t{10} * 60 * 1'000'000;
  // 2025-01-01: who shows less cannot be right, and is left at once.
  static constexpr std::int64_t kEarliestUs = std::int64_t{1'735'689'600} * 1'000'000;
  // Less is no leap: clocks are adjusted all the time. 0.1 % of the time between two looks more.
  static constexpr std::int64_t kToleranceUs = std::int64_t{60} * 1'000'000;

  struct Times {
    std::int64_t wall_us = 0;       // what the clock of the day shows
    std::int64_t timestamp_us = 0;  // what a message gets: without what is not believed yet
    std::int64_t leaps_us = 0;      // as in LeapRecord
    bool may_age = true;            // false: too early to say what is old
    // What to write down of this moment, to add leaps_us to it when it is read.
    std::int64_t NotedUs() const { return wall_us - leaps_us; }
  };

  // As if looked at for the first time.
  explicit LeapClock(const ClockReading& now = ReadClocks());
  // Goes on from a record. Absent: there is none yet.
  void Restore(const std::optional<LeapRecord>& record, const ClockReading& now)
      TOPICDB_EXCLUDES(mutex_);

  Times Look(const ClockReading& now = ReadClocks()) TOPICDB_EXCLUDES(mutex_);

  LeapRecord record() const TOPICDB_EXCLUDES(mutex_);
  // Whether there is more to be known than what time has passed since it was last saved.
  bool IsChanged() const TOPICDB_EXCLUDES(mutex_);
  void NoteSaved(const LeapRecord& saved) TOPICDB_EXCLUDES(mutex_);

 private:
  void Advance(const ClockReading& now) TOPICDB_REQUIRES(mutex_);
  void AdvanceOverStart(const ClockReading& now) TOPICDB_REQUIRES(mutex_);
  void TakeLeap(std::int64_t leap_us, const ClockReading& now) TOPICDB_REQUIRES(mutex_);
  void Settle(const ClockReading& now) TOPICDB_REQUIRES(mutex_);

  mutable Mutex mutex_;
  LeapRecord record_ TOPICDB_GUARDED_BY(mutex_);
  std::optional<LeapRecord> saved_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
