#include "base/leap_clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace topicdb {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr microseconds kSecond = 1s;
constexpr microseconds kHour = 1h;
constexpr microseconds kDay = 24h;
constexpr microseconds kYears = 3'652 * kDay;
constexpr WallTime kStart = LeapClock::kEarliest + 500 * kDay;

// The two clocks of a machine, which the tests move.
class Machine {
 public:
  const ClockReading& now() const { return now_; }
  void Pass(microseconds time) {
    now_.wall_time += time;
    now_.boot_time += time;
  }
  void Leap(microseconds time) { now_.wall_time += time; }
  void StartAnew(microseconds off) {
    now_.wall_time += off;
    now_.boot_time = BootTime(20 * kSecond);
    ++now_.boot[0];
  }

 private:
  ClockReading now_{{1}, BootTime(kHour), kStart};
};

class LeapClockTest : public testing::Test {
 protected:
  LeapClockTest() : clock_(machine_.now()) {
    clock_.Restore(std::nullopt, machine_.now());
    noted_ = Look().Noted();
  }
  LeapClock::Times Look() { return clock_.Look(machine_.now()); }
  // Returns how much time has passed since the beginning of the test, as the clock counts it.
  microseconds Age() { return Look().Noted() - noted_; }
  // Returns how far the wall clock is ahead of the timestamps that messages get.
  microseconds Held() {
    const LeapClock::Times times = Look();
    return times.wall_time - times.believed_time;
  }
  void Reopen() {
    const LeapRecord record = clock_.record();
    clock_.Restore(record, machine_.now());
  }

  Machine machine_;
  LeapClock clock_;
  NotedTime noted_;
};

TEST_F(LeapClockTest, FollowsAClockThatIsAdjusted) {
  for (int i = 0; i < 1'000; ++i) {
    machine_.Pass(10 * kSecond);
    machine_.Leap(i % 2 == 0 ? 5'000us : -kSecond);
    EXPECT_EQ(Look().leaps, 0us);
    EXPECT_EQ(Held(), 0us);
  }
  machine_.Pass(100 * kDay);
  machine_.Leap(kHour);  // 0.04 % of the time between two looks is no leap
  EXPECT_EQ(Age(), 10'000 * kSecond - 500 * kSecond + 500 * 5'000us + 100 * kDay + kHour);
}

TEST_F(LeapClockTest, TimePassesAsItDoes) {
  for (const microseconds leap : {kYears, -3 * kDay, 5 * kHour, -kYears}) {
    machine_.Pass(kHour);
    const microseconds before = Age();
    machine_.Leap(leap);
    EXPECT_EQ(Age(), before);
    machine_.Pass(kHour);
    EXPECT_EQ(Age(), before + kHour);
  }
}

TEST_F(LeapClockTest, TimestampsWaitUntilALeapHasStood) {
  machine_.Leap(kYears);
  EXPECT_EQ(Held(), kYears);
  machine_.Pass(LeapClock::kSettleTime - 1us);
  EXPECT_EQ(Held(), kYears);
  machine_.Pass(1us);
  EXPECT_EQ(Held(), 0us);
}

TEST_F(LeapClockTest, AndForgetItIfTheClockReturns) {
  machine_.Leap(kYears);
  EXPECT_EQ(Held(), kYears);
  machine_.Leap(-kYears - kHour);
  EXPECT_EQ(Held(), 0us);
  EXPECT_EQ(Look().leaps, -kHour);
}

TEST_F(LeapClockTest, ThoughTheClocksDifferByAMicrosecond) {
  machine_.Leap(kYears + 1us);
  EXPECT_EQ(Held(), kYears + 1us);
  machine_.Leap(-kYears);
  EXPECT_EQ(Held(), 0us);
}

TEST_F(LeapClockTest, WhatIsShortOrBackIsBelieved) {
  for (const microseconds leap : {LeapClock::kBelievedLeap, -kDay, -kYears}) {
    machine_.Leap(leap);
    EXPECT_EQ(Held(), 0us);
  }
}

TEST_F(LeapClockTest, AYearThatCannotBeIsLeftAtOnce) {
  machine_.Leap(-kStart.time_since_epoch());
  EXPECT_EQ(Look().believed_time, WallTime());
  machine_.Pass(kHour);
  machine_.Leap(kStart.time_since_epoch());
  EXPECT_EQ(Held(), 0us);
  EXPECT_EQ(Age(), kHour);
}

TEST_F(LeapClockTest, AnotherProcessGoesOn) {
  Look();
  machine_.Pass(kDay);
  machine_.Leap(kYears);  // nobody looks before the clock is restored
  Reopen();
  EXPECT_EQ(Age(), kDay);
  EXPECT_EQ(Held(), kYears);
  machine_.Leap(-kYears);
  Reopen();
  EXPECT_EQ(Age(), kDay);
  EXPECT_EQ(Held(), 0us);
}

TEST_F(LeapClockTest, AfterAStartTheClockTellsHowLongItWas) {
  machine_.StartAnew(10 * kDay);
  Reopen();
  EXPECT_EQ(Age(), 10 * kDay);
  EXPECT_EQ(Held(), 0us);
  EXPECT_FALSE(Look().may_age);
  Reopen();
  machine_.Pass(LeapClock::kSettleTime);
  EXPECT_TRUE(Look().may_age);
  EXPECT_EQ(Age(), 10 * kDay + LeapClock::kSettleTime);
}

TEST_F(LeapClockTest, AfterAShortStartNothingWaits) {
  machine_.StartAnew(30 * kSecond);
  Reopen();
  EXPECT_TRUE(Look().may_age);
}

TEST_F(LeapClockTest, AClockThatIsWrongAtTheStartIsSetRight) {
  machine_.StartAnew(kYears);
  Reopen();
  machine_.Pass(kSecond);
  EXPECT_FALSE(Look().may_age);
  machine_.Leap(kHour - kYears);
  EXPECT_EQ(Age(), kHour + kSecond);
  EXPECT_FALSE(Look().may_age);
  machine_.Pass(LeapClock::kSettleTime);
  EXPECT_TRUE(Look().may_age);
}

TEST_F(LeapClockTest, AStartInThePastTakesNoTime) {
  machine_.StartAnew(-kStart.time_since_epoch());
  Reopen();
  EXPECT_EQ(Age(), 0us);
  EXPECT_TRUE(Look().may_age);
  machine_.Pass(kHour);
  machine_.Leap(kStart.time_since_epoch() + kDay);
  EXPECT_EQ(Age(), kHour);
  EXPECT_EQ(Held(), 0us);
}

TEST_F(LeapClockTest, IsToBeSavedWhenThereIsNews) {
  EXPECT_TRUE(clock_.IsChanged());
  clock_.NoteSaved(clock_.record());
  machine_.Pass(kDay);
  Look();
  EXPECT_FALSE(clock_.IsChanged());
  machine_.Leap(kHour);
  Look();
  EXPECT_TRUE(clock_.IsChanged());
}

}  // namespace
}  // namespace topicdb
