#include "subscribe/page_cache.h"

#include <gtest/gtest.h>

#include "subscribe/log_parts.h"

namespace topicdb {
namespace {

// A page of shard 3 for the topic "a", with one message, from a view with this removals version.
std::shared_ptr<LogPage> PageOf(std::uint64_t from, std::uint64_t to, std::uint64_t removals = 1) {
  LogSpan span = SpanOf(At(from), At(to), {{At(from)}});
  span.removals_version = removals;
  return std::make_shared<LogPage>(SetOf({InterestIn(1, {"a"})}), std::move(span));
}

class PageCacheTest : public ::testing::Test {
 protected:
  bool Has(std::uint64_t serial, std::uint32_t shard = 3) const {
    return cache_.Find(shard, At(serial), *a_) != nullptr;
  }

  const SharedInterest a_ = InterestIn(1, {"a"});
  PageCache cache_{3 * PageOf(1, 2)->bytes()};
};

TEST_F(PageCacheTest, FindsThePageOfAPlaceThatHasWhatIsWanted) {
  const auto page = PageOf(5, 8);
  cache_.Add(page);
  EXPECT_EQ(cache_.Find(3, At(5), *a_), page);
  EXPECT_EQ(cache_.Find(3, At(7, 9), *a_), page);
  EXPECT_FALSE(Has(4));
  EXPECT_FALSE(Has(8));
  EXPECT_FALSE(Has(5, 2)) << "it is of another shard";
  EXPECT_EQ(cache_.Find(3, At(5), *InterestIn(2, {"b"})), nullptr);
}

TEST_F(PageCacheTest, KeepsTheLatestWithinItsBytes) {
  for (std::uint64_t i = 1; i <= 4; ++i) cache_.Add(PageOf(10 * i, 10 * i + 1));
  EXPECT_FALSE(Has(10));
  EXPECT_TRUE(Has(20) && Has(30) && Has(40));
  EXPECT_EQ(cache_.bytes(), 3 * PageOf(1, 2)->bytes());
}

TEST_F(PageCacheTest, KeepsAPageThatIsLargerThanAll) {
  cache_.Add(PageOf(1, 2));
  LogSpan span = SpanOf(At(5), At(6), {{At(5), "a", 0, std::string(10'000, 'v')}});
  cache_.Add(std::make_shared<LogPage>(SetOf({a_}), std::move(span)));
  EXPECT_FALSE(Has(1));
  EXPECT_TRUE(Has(5));
}

TEST_F(PageCacheTest, ForgetsTheShardsPagesOfOtherRemovals) {
  cache_.Add(PageOf(10, 11, 1));
  cache_.Add(PageOf(20, 21, 2));
  cache_.KeepOnly(4, 9);  // of another shard
  EXPECT_TRUE(Has(10) && Has(20));
  cache_.KeepOnly(3, 2);
  EXPECT_FALSE(Has(10));
  EXPECT_TRUE(Has(20));
  EXPECT_EQ(cache_.bytes(), PageOf(1, 2)->bytes());
}

TEST_F(PageCacheTest, ForgetsAll) {
  cache_.Add(PageOf(10, 11));
  cache_.Clear();
  EXPECT_FALSE(Has(10));
  EXPECT_EQ(cache_.bytes(), 0U);
}

}  // namespace
}  // namespace topicdb
