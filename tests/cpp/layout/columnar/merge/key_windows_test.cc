#include "layout/columnar/merge/key_windows.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace topicdb::columnar {
namespace {

using Keys = std::vector<std::uint64_t>;

TEST(KeyWindows, AnEvenSpanIsCutEvenly) {
  EXPECT_EQ(CutWindows({{100, 199, 1'000}}, 250), (Keys{125, 150, 175, 200}));
  EXPECT_EQ(CutWindows({{100, 199, 1'000}}, 400), (Keys{140, 180}));
  EXPECT_TRUE(CutWindows({{100, 199, 1'000}}, 2'000).empty());
  EXPECT_TRUE(CutWindows({}, 10).empty());
}

TEST(KeyWindows, WhereMoreIsTheyAreNarrower) {
  EXPECT_EQ(CutWindows({{0, 99, 100}, {50, 59, 190}}, 50), (Keys{50, 53, 56, 59, 90}));
}

TEST(KeyWindows, OneKeyMayHaveMoreThanAWindow) {
  EXPECT_EQ(CutWindows({{5, 5, 1'000}, {6, 9, 40}}, 100), (Keys{6}));
}

TEST(KeyWindows, KeysAtTheEndOfTheirRangeDoNotOverflow) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  const Keys keys = CutWindows({{0, kMax, 100}, {kMax - 1, kMax, 100}}, 30);
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_LE(keys.size(), 7U);
}

}  // namespace
}  // namespace topicdb::columnar
