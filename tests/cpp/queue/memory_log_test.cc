#include "queue/memory_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "queue/log_items.h"
#include "segment/segment_format.h"

namespace topicdb {
namespace {

using Views = std::vector<std::string_view>;

TEST(MemoryLog, NumbersItems) {
  MemoryLog log(5);
  EXPECT_EQ(log.begin_sequence(), 5U);
  EXPECT_EQ(log.end_sequence(), 5U);
  EXPECT_EQ(AppendTo(log, {"a", "b"}), 5U);
  EXPECT_EQ(AppendTo(log, {"c"}), 7U);
  EXPECT_EQ(log.begin_sequence(), 5U);
  EXPECT_EQ(log.end_sequence(), 8U);
}

TEST(MemoryLog, IsAsLargeAsItWillBeOnDisk) {
  MemoryLog log(1);
  EXPECT_EQ(log.end_count().bytes, 0U);
  const std::string item(200, 'x');
  EXPECT_EQ(log.ItemBytes(item), NativeSegmentFormat().ItemBytes(item));
  AppendTo(log, {"a", item});
  EXPECT_EQ(log.end_count().bytes, 32U + 2 + 202);
  EXPECT_EQ(log.end_count().items, 2U);
}

TEST(MemoryLog, ItemsWithWeightsCountThese) {
  MemoryLog log(1);
  const Views views{"a", "long item"};
  const std::vector<std::uint64_t> weights{1'000, 0};
  ASSERT_TRUE(log.Append({views, weights}, /*through=*/false).ok());
  EXPECT_EQ(log.end_count().bytes, 1'000U);
  EXPECT_EQ(log.end_count().items, 2U);
  EXPECT_EQ(log.Find(1)->block.weights, weights);
}

TEST(MemoryLog, KeepsItsOwnCopies) {
  MemoryLog log(1);
  std::string item = "item";
  const Views views{item, "", item};
  ASSERT_TRUE(log.Append(views, /*through=*/false).ok());
  item = "gone";
  EXPECT_EQ(log.Find(1)->block.items, (Views{"item", "", "item"}));
}

TEST(MemoryLog, FindsTheBatchOfAnItem) {
  MemoryLog log(1);
  EXPECT_EQ(log.Find(1), nullptr);
  AppendTo(log, {"a", "b"});
  AppendTo(log, {"c"});
  AppendTo(log, {"d", "e"});
  const auto first_of = [&](std::uint64_t sequence) {
    return log.Find(sequence)->block.first_sequence;
  };
  EXPECT_EQ(first_of(0), 1U) << "of the next item that there is";
  EXPECT_EQ(first_of(2), 1U);
  EXPECT_EQ(first_of(3), 3U);
  EXPECT_EQ(first_of(5), 4U);
  EXPECT_EQ(log.Find(6), nullptr);
  EXPECT_EQ(log.Find(5)->items_before, 3U);
}

TEST(MemoryLog, FreesWholeBatches) {
  MemoryLog log(1);
  EXPECT_EQ(log.free_at(), UINT64_MAX);
  AppendTo(log, {"a", "b"});
  AppendTo(log, {"c"});
  const LogCount before = log.end_count();
  EXPECT_EQ(log.free_at(), 3U);
  ASSERT_TRUE(log.FreeBefore(2).ok());
  EXPECT_EQ(log.begin_sequence(), 1U) << "\"b\" is still wanted";
  ASSERT_TRUE(log.FreeBefore(3).ok());
  EXPECT_EQ(log.begin_sequence(), 3U);
  EXPECT_EQ(log.free_at(), 4U);
  EXPECT_EQ(log.Find(1)->block.first_sequence, 3U);
  ASSERT_TRUE(log.FreeBefore(UINT64_MAX).ok());
  EXPECT_EQ(log.begin_sequence(), log.end_sequence());
  EXPECT_EQ(log.free_at(), UINT64_MAX);
  EXPECT_EQ(log.end_count().bytes, before.bytes) << "what was freed counts, too";
  EXPECT_EQ(log.end_count().items, before.items);
  EXPECT_EQ(AppendTo(log, {"d"}), 4U);
  EXPECT_EQ(log.free_at(), 5U);
}

TEST(MemoryLog, AReaderFollowsTheAppends) {
  MemoryLog log(1);
  const auto reader = log.NewReader();
  EXPECT_EQ(ReadFrom(*reader, 1), Items{});
  AppendTo(log, {"a", "b"});
  EXPECT_EQ(ReadFrom(*reader, 1), (Items{"a", "b"}));
  AppendTo(log, {"c"});
  EXPECT_EQ(ReadFrom(*reader, 3), (Items{"c"}));
  EXPECT_EQ(ReadFrom(*reader, 2), (Items{"a", "b", "c"})) << "whole blocks, back again";
}

TEST(MemoryLog, AReaderTellsWhatIsBeforeABlock) {
  MemoryLog log(10);
  AppendTo(log, {"a", "b"});
  AppendTo(log, {"c"});
  ASSERT_TRUE(log.FreeBefore(12).ok());
  const auto reader = log.NewReader();
  ASSERT_EQ(reader->Load({12, 0, 0, 0}).value(), ReadEvent::kBlock);
  EXPECT_EQ(reader->count_before().bytes, 36U);
  EXPECT_EQ(reader->count_before().items, 2U);
  EXPECT_EQ(reader->block().offset, 36U);
  EXPECT_EQ(reader->block().end_offset, log.end_count().bytes);
  EXPECT_EQ(reader->segment(), 0U);
}

TEST(MemoryLog, WhoKeepsTheOwnerKeepsTheItems) {
  std::string_view item;
  std::shared_ptr<const void> owner;
  {
    MemoryLog log(1);
    AppendTo(log, {std::string(100, 'x')});
    const auto reader = log.NewReader();
    ASSERT_EQ(reader->Load({1, 0, 0, 0}).value(), ReadEvent::kBlock);
    item = reader->block().items.at(0);
    owner = reader->owner();
    ASSERT_TRUE(log.FreeBefore(2).ok());
  }
  EXPECT_EQ(item, std::string(100, 'x'));
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace topicdb
