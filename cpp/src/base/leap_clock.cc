#include "base/leap_clock.h"

#include <algorithm>
#include <chrono>

namespace topicdb {

namespace {

using std::chrono::microseconds;

bool IsSameBoot(const ClockReading& a, const ClockReading& b) {
  return a.boot == b.boot && a.boot != BootId{};
}

}  // namespace

LeapClock::LeapClock(const ClockReading& now) { record_.at = now; }

void LeapClock::Restore(const std::optional<LeapRecord>& record, const ClockReading& now) {
  const MutexLock lock(mutex_);
  saved_ = record;
  record_ = record.value_or(LeapRecord{now});
  if (IsSameBoot(record_.at, now) && record_.at.boot_time <= now.boot_time) {
    Advance(now);
  } else {
    AdvanceOverStart(now);
  }
}

LeapClock::Times LeapClock::Look(const ClockReading& now) {
  const MutexLock lock(mutex_);
  Advance(now);
  return {now.wall_time, now.wall_time - record_.held, record_.leaps,
          record_.unproven == microseconds(0)};
}

void LeapClock::Advance(const ClockReading& now) {
  const microseconds passed = now.boot_time - record_.at.boot_time;
  const microseconds leap = now.wall_time - record_.at.wall_time - passed;
  if (abs(leap) > kTolerance + abs(passed) / 1'000) TakeLeap(leap, now);
  record_.at = now;
  Settle(now);
}

// Only the wall clock tells how long the machine was off.
void LeapClock::AdvanceOverStart(const ClockReading& now) {
  const microseconds off = now.wall_time - record_.at.wall_time;
  record_.held = microseconds(0);
  record_.unproven = microseconds(0);
  if (off < -kTolerance) {
    record_.leaps += off;
  } else if (off > kTolerance && now.boot != BootId{}) {
    record_.unproven = off;
    record_.unproven_since = now.boot_time;
  }
  record_.at = now;
}

void LeapClock::TakeLeap(microseconds leap, const ClockReading& now) {
  record_.leaps += leap;
  if (leap < microseconds(0)) {
    // A step back first takes unproven time away. That time never passed, so its end is no leap.
    const microseconds wrong = std::min(record_.unproven, -leap);
    record_.unproven -= wrong;
    record_.leaps += wrong;
    // A clock never goes back by exactly as much as it went ahead, since the two clocks differ by
    // microseconds. So a small rest counts as nothing.
    const microseconds held = record_.held + leap;
    record_.held = held > kTolerance ? held : microseconds(0);
  } else if (leap > kBelievedLeap && record_.at.wall_time >= kEarliest) {
    record_.held += leap;
    record_.held_since = now.boot_time;
  }
}

void LeapClock::Settle(const ClockReading& now) {
  if (now.boot_time - record_.unproven_since >= kSettleTime) record_.unproven = microseconds(0);
  if (now.boot_time - record_.held_since >= kSettleTime) record_.held = microseconds(0);
}

LeapRecord LeapClock::record() const {
  const MutexLock lock(mutex_);
  return record_;
}

bool LeapClock::IsChanged() const {
  const MutexLock lock(mutex_);
  if (!saved_.has_value()) return true;
  LeapRecord other = *saved_;
  other.at = record_.at;
  return other != record_ || saved_->at.boot != record_.at.boot;
}

void LeapClock::NoteSaved(const LeapRecord& saved) {
  const MutexLock lock(mutex_);
  saved_ = saved;
}

}  // namespace topicdb
