#include "store/shard/commit/delete_expander.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// Expands deletes in a shard of each layout that keeps messages by topic and time.
class DeleteExpanderTest : public ::testing::TestWithParam<LayoutKind> {
 protected:
  static OpenOptions Options() {
    OpenOptions options;
    options.schema.layout = GetParam();
    options.schema.structures = std::vector<std::string>{"a/+"};
    return options;
  }
  static meta::DeleteRecord Record(const std::string& filter, const TimeRange& range = {},
                                   Generation generation = meta::kEveryGeneration) {
    return {kLastSerial, 0, {Filter::Parse(filter).value(), range}, generation};
  }
  // Removes at most `removed_max` messages that the record matches, with a batch of their own.
  // Returns how many it has removed, and whether that are all of them.
  std::pair<std::size_t, bool> Remove(const meta::DeleteRecord& record,
                                      std::size_t removed_max = kNoLimit, bool masked = false) {
    const MutexLock lock(shard_.state.mutex);
    rocksdb::WriteBatch batch;
    DeleteExpander expander(shard_.state, &batch, removed_max);
    const auto complete = expander.Remove(record, masked);
    EXPECT_TRUE(complete.ok()) << complete.status().message();
    EXPECT_TRUE(expander.Finish().ok());
    EXPECT_TRUE(shard_.state.Write({rocks::EntryKind::kCommit}, &batch).ok());
    shard_.state.Publish(shard_.state.slabs, shard_.state.deletes);
    return {expander.removed(), complete.ok() && *complete};
  }
  using Removed = std::pair<std::size_t, bool>;

  ShardParts shard_{Options()};
};

TEST_P(DeleteExpanderTest, RemovesWhatMatchesInAllGenerations) {
  shard_.Append({{"a/1", 5, "x"}, {"a/2", 6, "x"}, {"b", 5, "x"}});
  ASSERT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  shard_.Append({{"a/1", 7, "x"}});
  EXPECT_EQ(Remove(Record("a/+")), (Removed{3, true}));
  EXPECT_EQ(shard_.Get("a/1", 5), std::nullopt);
  EXPECT_EQ(shard_.Get("a/2", 6), std::nullopt);
  EXPECT_EQ(shard_.Get("a/1", 7), std::nullopt);
  EXPECT_EQ(shard_.Get("b", 5), "x");
  EXPECT_EQ(Remove(Record("a/+")), (Removed{0, true}));
}

TEST_P(DeleteExpanderTest, RemovesOnlyWhatIsInTheRange) {
  shard_.Append({{"a/1", 5, "x"}, {"a/1", 6, "x"}, {"a/1", 7, "x"}});
  EXPECT_EQ(Remove(Record("a/+", {6, 7})), (Removed{1, true}));
  EXPECT_EQ(shard_.Get("a/1", 5), "x");
  EXPECT_EQ(shard_.Get("a/1", 6), std::nullopt);
  EXPECT_EQ(shard_.Get("a/1", 7), "x");
  EXPECT_EQ(Remove(Record("a/+", {100, 200})), (Removed{0, true}));
}

TEST_P(DeleteExpanderTest, RemovesOnlyFromItsGeneration) {
  shard_.Append({{"a/1", 5, "x"}});
  ASSERT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  shard_.Append({{"a/1", 6, "x"}});
  EXPECT_EQ(Remove(Record("a/+", {}, Generation{2})), (Removed{1, true}));
  EXPECT_EQ(shard_.Get("a/1", 5), "x");
  EXPECT_EQ(shard_.Get("a/1", 6), std::nullopt);
}

TEST_P(DeleteExpanderTest, LeavesWhatLaterCommitsHaveWritten) {
  const Serial first = shard_.Append({{"a/1", 5, "x"}});
  shard_.Append({{"a/2", 5, "later"}});
  meta::DeleteRecord record = Record("a/+");
  record.serial = first;
  EXPECT_EQ(Remove(record), (Removed{1, true}));
  EXPECT_EQ(shard_.Get("a/2", 5), "later");
}

TEST_P(DeleteExpanderTest, ABatchIsNoLargerThanItMayBe) {
  shard_.Append({{"a/1", 1, "x"}, {"a/1", 2, "x"}, {"a/2", 3, "x"}, {"a/2", 4, "x"}});
  EXPECT_EQ(Remove(Record("a/+"), 3), (Removed{3, false}));
  EXPECT_EQ(Remove(Record("a/+"), 3), (Removed{1, true}));
  EXPECT_EQ(shard_.Get("a/2", 4), std::nullopt);
}

TEST_P(DeleteExpanderTest, ASingleMessageHasAlwaysRoom) {
  shard_.Append({{"a/1", 5, "x"}, {"a/1", 6, "x"}});
  EXPECT_EQ(Remove(Record("a/1", Instant(5)), 0), (Removed{1, true}));
  EXPECT_EQ(shard_.Get("a/1", 5), std::nullopt);
  EXPECT_EQ(shard_.Get("a/1", 6), "x");
  EXPECT_EQ(Remove(Record("unknown", Instant(5)), 0), (Removed{0, true}));
}

TEST_P(DeleteExpanderTest, WhatAnUnfinishedDeleteHidesIsLeftToIt) {
  shard_.Append({{"a/1", 5, "x"}, {"a/2", 5, "x"}});
  {
    const MutexLock lock(shard_.state.mutex);
    shard_.state.Publish(shard_.state.slabs,
                         std::make_shared<const std::vector<meta::DeleteRecord>>(
                             std::vector<meta::DeleteRecord>{Record("a/1")}));
  }
  EXPECT_EQ(Remove(Record("a/+"), kNoLimit, /*masked=*/true), (Removed{1, true}));
  EXPECT_EQ(shard_.Get("a/2", 5), std::nullopt);
  EXPECT_EQ(Remove(Record("a/+"), kNoLimit, /*masked=*/false), (Removed{1, true}));
}

TEST_P(DeleteExpanderTest, TakesASlabByItself) {
  shard_.Append({{"a/1", 5, "x"}, {"a/2", 6, "x"}});
  const std::shared_ptr<const ShardView> view = shard_.state.view();
  const Slab& slab = *view->current().front().slab;
  const MutexLock lock(shard_.state.mutex);
  rocksdb::WriteBatch batch;
  DeleteExpander expander(shard_.state, &batch, kNoLimit);
  EXPECT_TRUE(expander.RemoveFrom(slab, Record("#", {100, 200}), {}).value());
  EXPECT_EQ(expander.removed(), 0U);
  const std::vector<RowMask> masks{{Filter::Parse("a/1").value(), {}, kLastSerial}};
  EXPECT_TRUE(expander.RemoveFrom(slab, Record("#"), masks).value());
  EXPECT_EQ(expander.removed(), 1U);
  EXPECT_TRUE(expander.Finish().ok());
  EXPECT_GT(batch.Count(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Layouts, DeleteExpanderTest,
                         ::testing::Values(LayoutKind::kSkipstream, LayoutKind::kColumnar),
                         [](const auto& layout) { return std::string(NameOf(layout.param)); });

}  // namespace
}  // namespace topicdb
