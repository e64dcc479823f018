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

TEST(KeyWindows, TheYearsBehindAMomentWithManyBytesAreNoWindows) {
  // The clocks of some devices were not set, and one shows the year 9999.
  constexpr std::uint64_t kNow = 1'700'000'000'000'000;
  constexpr double kPageBytes = 65'536;
  // What a plain sum rounds off may have either sign, and only one of them makes windows.
  for (std::uint64_t variant = 0; variant < 16; ++variant) {
    std::vector<KeySpan> spans{{kNow, 253'402'300'799'000'000, kPageBytes}};
    for (std::uint64_t i = 0; i < 2'000; ++i) {
      const auto more = static_cast<double>(i * (2 * variant + 1) % 997);
      spans.push_back({0, 0, kPageBytes + 0.1 * more});
      const std::uint64_t first = kNow + i * 1'000'000;
      spans.push_back({first, first + 50'000'000, kPageBytes});
    }
    EXPECT_LE(CutWindows(spans, 1 << 20).size(), 4'001 / 16U) << variant;
  }
}

TEST(KeyWindows, KeysAtTheEndOfTheirRangeDoNotOverflow) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  const Keys keys = CutWindows({{0, kMax, 100}, {kMax - 1, kMax, 100}}, 30);
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_LE(keys.size(), 7U);
}

}  // namespace
}  // namespace topicdb::columnar
