#include "base/leap_clock.h"

#include <algorithm>
#include <cstdlib>

namespace topicdb {

namespace {

bool IsSameBoot(const ClockReading& a, const ClockReading& b) {
  return a.boot == b.boot && a.boot != BootId{};
}

}  // namespace

LeapClock::LeapClock(const ClockReading& now) { record_.at = now; }

void LeapClock::Restore(const std::optional<LeapRecord>& record, const ClockReading& now) {
  const MutexLock lock(mutex_);
  saved_ = record;
  record_ = record.value_or(LeapRecord{now});
  if (IsSameBoot(record_.at, now) && record_.at.boot_us <= now.boot_us) {
    Advance(now);
  } else {
    AdvanceOverStart(now);
  }
}

LeapClock::Times LeapClock::Look(const ClockReading& now) {
  const MutexLock lock(mutex_);
  Advance(now);
  return {now.wall_us, now.wall_us - record_.held_us, record_.leaps_us, record_.unproven_us == 0};
}

void LeapClock::Advance(const ClockReading& now) {
  const std::int64_t passed_us = now.boot_us - record_.at.boot_us;
  const std::int64_t leap_us = now.wall_us - record_.at.wall_us - passed_us;
  if (std::abs(leap_us) > kToleranceUs + std::abs(passed_us) / 1'000) TakeLeap(leap_us, now);
  record_.at = now;
  Settle(now);
}

// Only the wall clock tells how long the machine was off.
void LeapClock::AdvanceOverStart(const ClockReading& now) {
  const std::int64_t off_us = now.wall_us - record_.at.wall_us;
  record_.held_us = 0;
  record_.unproven_us = 0;
  if (off_us < -kToleranceUs) {
    record_.leaps_us += off_us;
  } else if (off_us > kToleranceUs && now.boot != BootId{}) {
    record_.unproven_us = off_us;
    record_.unproven_since_us = now.boot_us;
  }
  record_.at = now;
}

void LeapClock::TakeLeap(std::int64_t leap_us, const ClockReading& now) {
  record_.leaps_us += leap_us;
  if (leap_us < 0) {
    // A step back first takes unproven time away. That time never passed, so its end is no leap.
    const std::int64_t wrong_us = std::min(record_.unproven_us, -leap_us);
    record_.unproven_us -= wrong_us;
    record_.leaps_us += wrong_us;
    // A clock never goes back by exactly as much as it went ahead, since the two clocks differ by
    // microseconds. So a small rest counts as nothing.
    const std::int64_t held_us = record_.held_us + leap_us;
    record_.held_us = held_us > kToleranceUs ? held_us : 0;
  } else if (leap_us > kBelievedLeapUs && record_.at.wall_us >= kEarliestUs) {
    record_.held_us += leap_us;
    record_.held_since_us = now.boot_us;
  }
}

void LeapClock::Settle(const ClockReading& now) {
  if (now.boot_us - record_.unproven_since_us >= kSettleUs) record_.unproven_us = 0;
  if (now.boot_us - record_.held_since_us >= kSettleUs) record_.held_us = 0;
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
