#include "commit/key_range.h"

#include <gtest/gtest.h>

#include <limits>

namespace topicdb {
namespace {

KeyRange Keys(const std::string& filter, TimeRange range) {
  return {Filter::Parse(filter).value(), range};
}

TEST(KeyRange, APointIsOneTopicAtOneMoment) {
  EXPECT_TRUE(IsPoint(Keys("a/b", {5, 6})));
  EXPECT_TRUE(IsPoint(Keys("a", {std::nullopt, 1})));
  EXPECT_TRUE(IsPoint(Keys("a", Instant(0))));
  EXPECT_FALSE(IsPoint(Keys("a", {5, 7})));
  EXPECT_FALSE(IsPoint(Keys("a", {5, 5})));
  EXPECT_FALSE(IsPoint(Keys("a", {5, std::nullopt})));
  EXPECT_FALSE(IsPoint(Keys("a/+", {5, 6})));
  EXPECT_FALSE(IsPoint(Keys("a/#", {5, 6})));
}

TEST(KeyRange, TheLastInstantHasNoEnd) {
  const std::int64_t last = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(Contains(Instant(last), last));
  EXPECT_FALSE(Contains(Instant(last), last - 1));
  EXPECT_FALSE(Contains(Instant(last - 1), last));
}

TEST(KeyRange, RangesIntersectWhereTheyHaveAMomentInCommon) {
  const TimeRange all;
  const TimeRange empty{5, 5};
  EXPECT_TRUE(Intersects(all, all));
  EXPECT_TRUE(Intersects({1, 5}, {4, std::nullopt}));
  EXPECT_FALSE(Intersects({1, 5}, {5, 9}));
  EXPECT_FALSE(Intersects({5, 9}, {std::nullopt, 5}));
  EXPECT_FALSE(Intersects(all, empty));
}

TEST(KeyRange, ItsDescriptionNamesFilterAndTime) {
  EXPECT_EQ(Describe(Keys("a/+", {5, 9})), "'a/+' from 5 to 9");
  EXPECT_EQ(Describe(Keys("#", {})), "'#'");
}

}  // namespace
}  // namespace topicdb
