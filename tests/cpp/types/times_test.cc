#include "topicdb/types/times.h"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/leap_clock.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

// True if neither time can be made of the other, compared with it or subtracted from it.
template <typename One, typename Other>
constexpr bool kNeverMix =
    !std::is_constructible_v<One, Other> && !std::is_constructible_v<Other, One> &&
    !std::is_assignable_v<One&, Other> && !std::is_assignable_v<Other&, One> &&
    !requires(One one, Other other) { one == other; } &&
    !requires(One one, Other other) { one < other; } &&
    !requires(One one, Other other) { one - other; };

static_assert(kNeverMix<WallTime, BootTime>);
static_assert(kNeverMix<WallTime, NotedTime>);
static_assert(kNeverMix<BootTime, NotedTime>);
static_assert(kNeverMix<WallTime, std::int64_t>);
static_assert(std::same_as<decltype(WallTime() - WallTime()), std::chrono::microseconds>);
static_assert(sizeof(WallTime) == sizeof(std::int64_t));
static_assert(std::is_trivially_copyable_v<WallTime>);

TEST(Times, CountInMicroseconds) {
  EXPECT_EQ(MicrosecondsOf(WallTime(2s)), 2'000'000);
  EXPECT_EQ(TimestampAt(WallTime(-1us)), -1);
  for (const std::int64_t number : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                                    std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(MicrosecondsOf(TimeAt<BootTime>(number)), number);
  }
}

}  // namespace
}  // namespace topicdb
