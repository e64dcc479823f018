#include "store/view/reader_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "store/view/shard_view.h"

namespace topicdb {
namespace {

// A reader that is in a set as long as it lives.
class FakeReader : public StreamReader {
 public:
  FakeReader(int number, std::set<int>* alive) : number_(number), alive_(alive) {
    alive_->insert(number_);
  }
  ~FakeReader() override { alive_->erase(number_); }
  Result<ReadOutcome> Read(const ReadLimits&, Batch*) override { return ReadOutcome::kExhausted; }
  const Position& position() const override { return position_; }
  ReadCounters counters() const override { return {}; }

 private:
  const int number_;
  std::set<int>* const alive_;
  const Position position_;
};

class ReaderCacheTest : public ::testing::Test {
 protected:
  void Put(const std::string& iterator, int reader) {
    ReaderCache::Entry entry;
    entry.iterator = iterator;
    entry.reader = std::make_unique<FakeReader>(reader, &alive_);
    cache_.Put(std::move(entry));
  }
  bool Has(const std::string& iterator) { return cache_.Take(iterator).reader != nullptr; }

  std::set<int> alive_;  // the numbers of the readers
  ReaderCache cache_;
};

TEST_F(ReaderCacheTest, GivesTheReaderOfAnIteratorOnce) {
  Put("a", 1);
  Put("b", 2);
  {
    const ReaderCache::Entry taken = cache_.Take("a");
    EXPECT_EQ(taken.iterator, "a");
    EXPECT_NE(taken.reader, nullptr);
    EXPECT_FALSE(Has("a")) << "two reads may not use it";
    EXPECT_EQ(alive_, (std::set<int>{1, 2}));
  }
  EXPECT_EQ(alive_, std::set<int>{2}) << "whoever took it owns it";
  EXPECT_FALSE(Has("c"));
}

TEST_F(ReaderCacheTest, KeepsTheLastFew) {
  for (int i = 1; i <= 6; ++i) Put(std::to_string(i), i);
  EXPECT_EQ(alive_, (std::set<int>{3, 4, 5, 6}));
  cache_.Put(cache_.Take("3"));  // now it is the last that was used
  Put("7", 7);
  EXPECT_EQ(alive_, (std::set<int>{3, 5, 6, 7}));
}

TEST_F(ReaderCacheTest, OfOneIteratorGivesTheLastThatWasPut) {
  Put("a", 1);
  Put("a", 2);
  const ReaderCache::Entry taken = cache_.Take("a");
  cache_.Clear();
  EXPECT_EQ(alive_, std::set<int>{2});
}

TEST_F(ReaderCacheTest, ExpiringLeavesWhatWasJustUsed) {
  ReaderCache::Entry old;
  old.iterator = "a";
  old.reader = std::make_unique<FakeReader>(1, &alive_);
  old.used_at = {};  // Put says when it was used
  cache_.Put(std::move(old));
  cache_.Expire();
  EXPECT_TRUE(Has("a"));
}

TEST_F(ReaderCacheTest, ForgetsAll) {
  cache_.Clear();
  for (int i = 1; i <= 3; ++i) Put(std::to_string(i), i);
  cache_.Clear();
  EXPECT_TRUE(alive_.empty());
  EXPECT_FALSE(Has("1"));
}

}  // namespace
}  // namespace topicdb
