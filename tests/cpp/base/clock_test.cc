#include "base/clock.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(Clock, CountsFromTheStartOfTheMachine) {
  const ClockReading first = ReadClocks();
  const ClockReading second = ReadClocks();
  EXPECT_EQ(first.boot, second.boot);
  EXPECT_GE(second.boot_us, first.boot_us);
  EXPECT_GT(first.boot_us, 0);
}

}  // namespace
}  // namespace topicdb
