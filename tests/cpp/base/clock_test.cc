#include "base/clock.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(Clock, CountsFromTheStartOfTheMachine) {
  const ClockReading first = ReadClocks();
  const ClockReading second = ReadClocks();
  EXPECT_EQ(first.boot, second.boot);
  EXPECT_GE(second.boot_time, first.boot_time);
  EXPECT_GT(first.boot_time, BootTime());
}

}  // namespace
}  // namespace topicdb
