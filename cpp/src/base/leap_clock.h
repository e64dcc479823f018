// The time as a database needs it, although the system's clock leaps.
//
// The system's clock (the wall clock) is set: by hand, by NTP after a start in 1970, or by a host
// that has paused its guest. A second clock tells how long ago something was: it shows the time
// since the machine was started, including the time that it slept. A leap is how far the wall clock
// gets ahead of the second clock, or falls behind it, between two looks.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/thread/mutex.h"

namespace topicdb {

// The state of a LeapClock, with which another process can continue.
struct LeapRecord {
  ClockReading at;  // when the clocks were last looked at
  // The sum of all leaps. On today's clock, a time that was noted as NotedUs() is later by this.
  std::int64_t leaps_us = 0;
  // How far the wall clock was ahead of `at` when the machine was started again. Nothing tells
  // whether that time has really passed. 0 once it counts as passed.
  std::int64_t unproven_us = 0;
  std::int64_t unproven_since_us = 0;  // boot_us
  // How far the wall clock is ahead of the time that is believed.
  std::int64_t held_us = 0;
  std::int64_t held_since_us = 0;  // boot_us
  bool operator==(const LeapRecord&) const = default;
};

// Finds leaps, and decides which time to believe. A Shard owns it. Thread-safe: each call holds
// mutex_.
class LeapClock {
 public:
  // A leap ahead of at most this much is believed at once: guests are paused, and laptops closed.
  static constexpr std::int64_t kBelievedLeapUs = std::int64_t{24} * 3'600 * 1'000'000;
  // After a larger leap, the wall clock is believed when this time has passed on the other clock.
  static constexpr std::int64_t kSettleUs = std::int64_t{10} * 60 * 1'000'000;
  // 2025-01-01. A clock that shows less cannot be right, so a leap from there is believed at once.
  static constexpr std::int64_t kEarliestUs = std::int64_t{1'735'689'600} * 1'000'000;
  // Less than this is no leap, since clocks are adjusted all the time. In addition, 0.1 % of the
  // time between two looks is no leap.
  static constexpr std::int64_t kToleranceUs = std::int64_t{60} * 1'000'000;

  // The times to use at one moment.
  struct Times {
    std::int64_t wall_us = 0;       // what the wall clock shows
    std::int64_t timestamp_us = 0;  // what a message gets: without what is not believed yet
    std::int64_t leaps_us = 0;      // as in LeapRecord
    bool may_age = true;            // false: too early to say what is old
    // Returns what to store for this moment. Whoever reads it adds the leaps_us of then to it.
    std::int64_t NotedUs() const { return wall_us - leaps_us; }
  };

  // Begins as if it looked at the clocks for the first time.
  explicit LeapClock(const ClockReading& now = ReadClocks());
  // Continues from a record, which is absent if there is none yet.
  void Restore(const std::optional<LeapRecord>& record, const ClockReading& now)
      TOPICDB_EXCLUDES(mutex_);

  // Takes note of what the clocks show, and returns the times to use.
  Times Look(const ClockReading& now = ReadClocks()) TOPICDB_EXCLUDES(mutex_);

  // Returns the state, which the caller stores for Restore.
  LeapRecord record() const TOPICDB_EXCLUDES(mutex_);
  // Returns whether record() tells more than the last saved one, apart from the time that passed.
  bool IsChanged() const TOPICDB_EXCLUDES(mutex_);
  // Tells the clock that this record was stored, for IsChanged.
  void NoteSaved(const LeapRecord& saved) TOPICDB_EXCLUDES(mutex_);

 private:
  // Moves record_ to `now`, and takes a leap since the last look into account.
  void Advance(const ClockReading& now) TOPICDB_REQUIRES(mutex_);
  // Moves record_ to `now` if the machine was started since the last look, or may have been.
  void AdvanceOverStart(const ClockReading& now) TOPICDB_REQUIRES(mutex_);
  // Counts a leap, and decides how much of it to believe.
  void TakeLeap(std::int64_t leap_us, const ClockReading& now) TOPICDB_REQUIRES(mutex_);
  // Believes what was held back, and counts what was unproven as passed, after kSettleUs.
  void Settle(const ClockReading& now) TOPICDB_REQUIRES(mutex_);

  mutable Mutex mutex_;
  LeapRecord record_ TOPICDB_GUARDED_BY(mutex_);
  std::optional<LeapRecord> saved_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
