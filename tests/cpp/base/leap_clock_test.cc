#include "base/leap_clock.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kHour = 3'600 * kSecond;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kYears = 3'652 * kDay;
constexpr std::int64_t kStart = LeapClock::kEarliestUs + 500 * kDay;

// The two clocks of a machine, which the tests move.
class Machine {
 public:
  const ClockReading& now() const { return now_; }
  void Pass(std::int64_t us) {
    now_.wall_us += us;
    now_.boot_us += us;
  }
  void Leap(std::int64_t us) { now_.wall_us += us; }
  void StartAnew(std::int64_t off_us) {
    now_.wall_us += off_us;
    now_.boot_us = 20 * kSecond;
    ++now_.boot[0];
  }

 private:
  ClockReading now_{{1}, kHour, kStart};
};

class LeapClockTest : public testing::Test {
 protected:
  LeapClockTest() : clock_(machine_.now()) {
    clock_.Restore(std::nullopt, machine_.now());
    noted_us_ = Look().NotedUs();
  }
  LeapClock::Times Look() { return clock_.Look(machine_.now()); }
  // Returns how much time has passed since the beginning of the test, as the clock counts it.
  std::int64_t AgeUs() { return Look().NotedUs() - noted_us_; }
  // Returns how far the wall clock is ahead of the timestamps that messages get.
  std::int64_t HeldUs() {
    const LeapClock::Times times = Look();
    return times.wall_us - times.timestamp_us;
  }
  void Reopen() {
    const LeapRecord record = clock_.record();
    clock_.Restore(record, machine_.now());
  }

  Machine machine_;
  LeapClock clock_;
  std::int64_t noted_us_ = 0;
};

TEST_F(LeapClockTest, FollowsAClockThatIsAdjusted) {
  for (int i = 0; i < 1'000; ++i) {
    machine_.Pass(10 * kSecond);
    machine_.Leap(i % 2 == 0 ? 5'000 : -kSecond);
    EXPECT_EQ(Look().leaps_us, 0);
    EXPECT_EQ(HeldUs(), 0);
  }
  machine_.Pass(100 * kDay);
  machine_.Leap(kHour);  // 0.04 % of the time between two looks is no leap
  EXPECT_EQ(AgeUs(),
            10'000 * kSecond - 500 * kSecond + std::int64_t{500} * 5'000 + 100 * kDay + kHour);
}

TEST_F(LeapClockTest, TimePassesAsItDoes) {
  for (const std::int64_t leap_us : {kYears, -3 * kDay, 5 * kHour, -kYears}) {
    machine_.Pass(kHour);
    const std::int64_t before_us = AgeUs();
    machine_.Leap(leap_us);
    EXPECT_EQ(AgeUs(), before_us);
    machine_.Pass(kHour);
    EXPECT_EQ(AgeUs(), before_us + kHour);
  }
}

TEST_F(LeapClockTest, TimestampsWaitUntilALeapHasStood) {
  machine_.Leap(kYears);
  EXPECT_EQ(HeldUs(), kYears);
  machine_.Pass(LeapClock::kSettleUs - 1);
  EXPECT_EQ(HeldUs(), kYears);
  machine_.Pass(1);
  EXPECT_EQ(HeldUs(), 0);
}

TEST_F(LeapClockTest, AndForgetItIfTheClockReturns) {
  machine_.Leap(kYears);
  EXPECT_EQ(HeldUs(), kYears);
  machine_.Leap(-kYears - kHour);
  EXPECT_EQ(HeldUs(), 0);
  EXPECT_EQ(Look().leaps_us, -kHour);
}

TEST_F(LeapClockTest, ThoughTheClocksDifferByAMicrosecond) {
  machine_.Leap(kYears + 1);
  EXPECT_EQ(HeldUs(), kYears + 1);
  machine_.Leap(-kYears);
  EXPECT_EQ(HeldUs(), 0);
}

TEST_F(LeapClockTest, WhatIsShortOrBackIsBelieved) {
  for (const std::int64_t leap_us : {LeapClock::kBelievedLeapUs, -kDay, -kYears}) {
    machine_.Leap(leap_us);
    EXPECT_EQ(HeldUs(), 0);
  }
}

TEST_F(LeapClockTest, AYearThatCannotBeIsLeftAtOnce) {
  machine_.Leap(-kStart);
  EXPECT_EQ(Look().timestamp_us, 0);
  machine_.Pass(kHour);
  machine_.Leap(kStart);
  EXPECT_EQ(HeldUs(), 0);
  EXPECT_EQ(AgeUs(), kHour);
}

TEST_F(LeapClockTest, AnotherProcessGoesOn) {
  Look();
  machine_.Pass(kDay);
  machine_.Leap(kYears);  // nobody looks before the clock is restored
  Reopen();
  EXPECT_EQ(AgeUs(), kDay);
  EXPECT_EQ(HeldUs(), kYears);
  machine_.Leap(-kYears);
  Reopen();
  EXPECT_EQ(AgeUs(), kDay);
  EXPECT_EQ(HeldUs(), 0);
}

TEST_F(LeapClockTest, AfterAStartTheClockTellsHowLongItWas) {
  machine_.StartAnew(10 * kDay);
  Reopen();
  EXPECT_EQ(AgeUs(), 10 * kDay);
  EXPECT_EQ(HeldUs(), 0);
  EXPECT_FALSE(Look().may_age);
  Reopen();
  machine_.Pass(LeapClock::kSettleUs);
  EXPECT_TRUE(Look().may_age);
  EXPECT_EQ(AgeUs(), 10 * kDay + LeapClock::kSettleUs);
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
  EXPECT_EQ(AgeUs(), kHour + kSecond);
  EXPECT_FALSE(Look().may_age);
  machine_.Pass(LeapClock::kSettleUs);
  EXPECT_TRUE(Look().may_age);
}

TEST_F(LeapClockTest, AStartInThePastTakesNoTime) {
  machine_.StartAnew(-kStart);
  Reopen();
  EXPECT_EQ(AgeUs(), 0);
  EXPECT_TRUE(Look().may_age);
  machine_.Pass(kHour);
  machine_.Leap(kStart + kDay);
  EXPECT_EQ(AgeUs(), kHour);
  EXPECT_EQ(HeldUs(), 0);
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
