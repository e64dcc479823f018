// The time as a database needs it, although the system's clock leaps.
//
// The system's clock (the wall clock) is set: by hand, by NTP after a start in 1970, or by a host
// that has paused its guest. A second clock tells how long ago something was: it shows the time
// since the machine was started, including the time that it slept. A leap is how far the wall clock
// gets ahead of the second clock, or falls behind it, between two looks.
#pragma once

#include <chrono>
#include <optional>

#include "base/clock.h"
#include "base/thread/mutex.h"
#include "topicdb/types/times.h"

namespace topicdb {

// A time of the wall clock less the leaps up to then. It stays right when the wall clock leaps
// later: WallTimeOf tells what today's wall clock would have shown at that time.
using NotedTime = std::chrono::time_point<struct NotedClock, std::chrono::microseconds>;

// Convert between a noted time and the wall clock that has taken these leaps.
constexpr NotedTime NotedTimeOf(WallTime time, std::chrono::microseconds leaps) {
  return NotedTime(time.time_since_epoch() - leaps);
}
constexpr WallTime WallTimeOf(NotedTime time, std::chrono::microseconds leaps) {
  return WallTime(time.time_since_epoch() + leaps);
}

// The state of a LeapClock, with which another process can continue.
struct LeapRecord {
  ClockReading at;                    // when the clocks were last looked at
  std::chrono::microseconds leaps{};  // the sum of all leaps
  // How far the wall clock was ahead of `at` when the machine was started again. Nothing tells
  // whether that time has really passed. 0 once it counts as passed.
  std::chrono::microseconds unproven{};
  BootTime unproven_since{};
  // How far the wall clock is ahead of the time that is believed.
  std::chrono::microseconds held{};
  BootTime held_since{};
  bool operator==(const LeapRecord&) const = default;
};

// Finds leaps, and decides which time to believe. A Shard owns it. Thread-safe: each call holds
// mutex_.
class LeapClock {
 public:
  // A leap ahead of at most this much is believed at once: guests are paused, and laptops closed.
  static constexpr std::chrono::microseconds kBelievedLeap = std::chrono::hours(24);
  // After a larger leap, the wall clock is believed when this time has passed on the other clock.
  static constexpr std::chrono::microseconds kSettleTime = std::chrono::minutes(10);
  // 2025-01-01. A clock that shows less cannot be right, so a leap from there is believed at once.
  static constexpr WallTime kEarliest{std::chrono::seconds(1'735'689'600)};
  // Less than this is no leap, since clocks are adjusted all the time. In addition, 0.1 % of the
  // time between two looks is no leap.
  static constexpr std::chrono::microseconds kTolerance = std::chrono::minutes(1);

  // The times to use at one moment.
  struct Times {
    WallTime wall_time;                 // what the wall clock shows
    WallTime believed_time;             // what a message gets: without what is not believed yet
    std::chrono::microseconds leaps{};  // as in LeapRecord
    bool may_age = true;                // false: too early to say what is old
    // Returns what to store of the time.
    NotedTime Noted() const { return NotedTimeOf(wall_time, leaps); }
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
  void TakeLeap(std::chrono::microseconds leap, const ClockReading& now) TOPICDB_REQUIRES(mutex_);
  // Believes what was held back, and counts what was unproven as passed, after kSettleTime.
  void Settle(const ClockReading& now) TOPICDB_REQUIRES(mutex_);

  mutable Mutex mutex_;
  LeapRecord record_ TOPICDB_GUARDED_BY(mutex_);
  std::optional<LeapRecord> saved_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
