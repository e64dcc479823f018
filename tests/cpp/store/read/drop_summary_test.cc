#include "store/read/drop_summary.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/read/read_parts.h"

namespace topicdb {
namespace {

using Part = meta::DropRecord::Part;
using Parts = std::vector<Part>;

Parts SummaryOf(const ShardParts& shard) {
  const auto view = shard.state.view();
  auto parts = SummarizeLog(*view, *view->slabs().front().slab);
  EXPECT_TRUE(parts.ok()) << parts.status().message();
  return parts.ok() ? std::move(parts).value() : Parts();
}

// A dropped slab whose last message has the timestamp 100.
meta::DropRecord DropOf(Parts parts) {
  meta::DropRecord drop;
  drop.serial = Serial{90};
  drop.retention_class = "#";
  drop.generation = Generation{4};
  drop.last_timestamp = 100;
  drop.parts = std::move(parts);
  return drop;
}

std::uint64_t Lost(const meta::DropRecord& drop, const Texts& filters, std::uint64_t from = 1,
                   std::int64_t timestamp_min = 0) {
  return CountLost(drop, FiltersOf(filters), timestamp_min, Serial{from});
}

TEST(SummarizeLog, CountsByTopicsAndCommitsWhetherSealedOrNot) {
  ShardParts shard;
  const Serial first = shard.Append({{"b", 1, "x"}, {"a", 1, "x"}, {"b", 2, "x"}});
  const Serial second = shard.Append({{"b", 0, "x"}, {"c/d", 1, "x"}});
  const Parts expected{
      {"a", {{first, 1}}}, {"b", {{first, 2}, {second, 1}}}, {"c/d", {{second, 1}}}};
  EXPECT_EQ(SummaryOf(shard), expected);
  ASSERT_TRUE(shard.sealing.SealAll().ok());
  shard.Append({{"c/d", 2, "x"}});  // its view has the sealed block
  Parts with_last = expected;
  with_last.back().counts.push_back({second.Next(), 1});
  EXPECT_EQ(SummaryOf(shard), with_last);
}

TEST(SummarizeLog, LeavesOutWhatWasDeleted) {
  ShardParts shard;
  const Serial first = shard.Append({{"a", 1, "x"}, {"b", 1, "x"}, {"b", 2, "x"}});
  ASSERT_TRUE(shard.Delete("a")->status.ok());
  ASSERT_TRUE(shard.Delete("b", {2, 3})->status.ok());
  EXPECT_EQ(SummaryOf(shard), (Parts{{"b", {{first, 1}}}}));
}

TEST(SummarizeLog, OfNothingIsEmpty) {
  ShardParts shard;
  EXPECT_TRUE(SummaryOf(shard).empty());
}

TEST(SummarizeLog, PutsCommitsTogetherIfThereAreMany) {
  ShardParts shard;
  for (int i = 0; i < 130; ++i) shard.Append({{"a", i, "x"}});
  const Parts parts = SummaryOf(shard);
  ASSERT_EQ(parts.size(), 1U);
  const auto& counts = parts.front().counts;
  ASSERT_EQ(counts.size(), 44U) << "three at a time";
  for (std::size_t i = 0; i + 1 < counts.size(); ++i) {
    EXPECT_EQ(counts[i].messages, 3U);
    EXPECT_EQ(counts[i].serial, Serial{3 * (i + 1)}) << "the last of them";
  }
  EXPECT_EQ(counts.back().messages, 1U);
  EXPECT_EQ(counts.back().serial, Serial{130});
}

TEST(SummarizeLog, TellsManyTopicsNotApart) {
  ShardParts shard;
  Texts topics;
  for (int i = 0; i < 65; ++i) topics.push_back("t" + std::to_string(i));
  std::vector<MessageView> messages;
  for (const std::string& topic : topics) messages.push_back({topic, 1, "x"});
  const MessageView last = messages.back();
  messages.pop_back();
  shard.Append(messages);
  EXPECT_EQ(SummaryOf(shard).size(), 64U);
  const Serial serial = shard.Append({last});
  EXPECT_EQ(SummaryOf(shard), (Parts{{"#", {{serial.Previous(), 64}, {serial, 1}}}}));
}

TEST(SummarizeLog, OfADamagedSlabFails) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  DamageFirstBlock(&shard, shard.Current());
  shard.Append({{"a", 2, "x"}});
  const auto view = shard.state.view();
  EXPECT_EQ(SummarizeLog(*view, *view->slabs().front().slab).status().code(), Code::kCorruption);
}

OpenOptions Skipstream() {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  return options;
}

Parts SummaryOfState(const ShardParts& shard) {
  const auto view = shard.state.view();
  auto parts = SummarizeState(*view, *view->slabs().front().slab);
  EXPECT_TRUE(parts.ok()) << parts.status().message();
  return parts.ok() ? std::move(parts).value() : Parts();
}

TEST(SummarizeState, CountsByTopicsAndAsOfTheLastCommit) {
  ShardParts shard(Skipstream());
  shard.Append({{"b", 1, "x"}, {"a", 1, "x"}, {"b", 2, "x"}});
  const Serial last = shard.Append({{"b", 3, "x"}, {"c/d", 1, "x"}});
  EXPECT_EQ(SummaryOfState(shard),
            (Parts{{"a", {{last, 1}}}, {"b", {{last, 3}}}, {"c/d", {{last, 1}}}}));
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  shard.Append({{"a", 5, "x"}});
  EXPECT_EQ(SummaryOfState(shard).front(), (Part{"a", {{last, 1}}}))
      << "the generation after it began then";
}

TEST(SummarizeState, TellsManyTopicsNotApart) {
  ShardParts shard(Skipstream());
  for (int i = 0; i < 65; ++i) shard.Append({{"t" + std::to_string(i), 1, "x"}});
  EXPECT_EQ(SummaryOfState(shard), (Parts{{"#", {{Serial{65}, 65}}}}));
}

TEST(SummarizeState, OfNothingIsEmpty) {
  ShardParts shard(Skipstream());
  EXPECT_TRUE(SummaryOfState(shard).empty());
}

TEST(CoarseDrop, StandsForBoth) {
  const meta::DropRecord older =
      DropOf({{"a", {{Serial{3}, 10}, {Serial{70}, 5}}}, {"b", {{Serial{5}, 1}}}});
  meta::DropRecord newer = DropOf({{"c", {{Serial{60}, 20}}}});
  newer.serial = Serial{95};
  newer.retention_class = "c/#";
  newer.last_timestamp = 50;
  const meta::DropRecord both = Coarse(older, newer);
  EXPECT_EQ(both.serial, Serial{95});
  EXPECT_EQ(both.retention_class, "c/#");
  EXPECT_EQ(both.last_timestamp, 100);
  EXPECT_EQ(both.parts, (Parts{{"#", {{Serial{70}, 36}}}}));
  EXPECT_EQ(Lost(both, {"z"}), 36U) << "it may have been of that topic";
}

TEST(CoarseDrop, OfNothingIsNothing) {
  const meta::DropRecord both = Coarse(DropOf({}), DropOf({}));
  EXPECT_TRUE(both.parts.empty());
  EXPECT_EQ(Lost(both, {"#"}), 0U);
}

TEST(CountLost, CountsTheTopicsThatAReaderWants) {
  const meta::DropRecord drop = DropOf({{"a/+", {{Serial{3}, 10}}}, {"b", {{Serial{3}, 5}}}});
  EXPECT_EQ(Lost(drop, {"#"}), 15U);
  EXPECT_EQ(Lost(drop, {"a/x"}), 10U) << "it may be all of them";
  EXPECT_EQ(Lost(drop, {"a"}), 0U);
  EXPECT_EQ(Lost(drop, {"a/x", "+/y", "b"}), 15U) << "each once";
  EXPECT_EQ(CountLost(drop, {Filter::Everything()}, 0, Serial{1}), 15U);
  EXPECT_EQ(CountLost(drop, {}, 0, Serial{1}), 0U);
}

TEST(CountLost, CountsWhatWasCommittedFromTheReadersPlaceOn) {
  const meta::DropRecord drop =
      DropOf({{"a", {{Serial{3}, 1}, {Serial{6}, 10}, {Serial{9}, 100}}}});
  EXPECT_EQ(Lost(drop, {"a"}, 3), 111U) << "a part of the commit may be missing";
  EXPECT_EQ(Lost(drop, {"a"}, 4), 110U);
  EXPECT_EQ(Lost(drop, {"a"}, 9), 100U);
  EXPECT_EQ(Lost(drop, {"a"}, 10), 0U);
}

std::uint64_t LostUntil(const meta::DropRecord& drop, std::uint64_t until, std::uint64_t from = 1) {
  return CountLost(drop, FiltersOf({"#"}), 0, Serial{from}, Serial{until});
}

TEST(CountLost, LeavesOutLaterCommits) {
  const meta::DropRecord drop =
      DropOf({{"a", {{Serial{3}, 1}, {Serial{6}, 10}, {Serial{9}, 100}}}});
  EXPECT_EQ(LostUntil(drop, 2), 0U);
  EXPECT_EQ(LostUntil(drop, 3), 1U);
  EXPECT_EQ(LostUntil(drop, 8), 11U);
  EXPECT_EQ(LostUntil(drop, 9), 111U);
  EXPECT_EQ(LostUntil(drop, 8, 4), 10U);
}

TEST(CountLost, CountsCommitsTogetherThatTheSummaryHasPutTogether) {
  EXPECT_EQ(LostUntil(DropOf({{"a", {{Serial{9}, 7}}}}), 1), 7U) << "it may have been at any of 9";
  // 65 commits, two at a time: the record does not say so, but it has more counts than 32.
  std::vector<meta::DropRecord::Count> counts;
  for (std::uint64_t i = 1; i <= 33; ++i) counts.push_back({Serial{2 * i}, 2});
  const meta::DropRecord drop = DropOf({{"a", counts}});
  EXPECT_EQ(LostUntil(drop, 2), 2U);
  EXPECT_EQ(LostUntil(drop, 3), 4U) << "one of the two may have been commit 3";
  EXPECT_EQ(LostUntil(drop, 4), 4U);
}

TEST(CountLost, CountsNothingIfAllIsOlderThanAReaderWants) {
  const meta::DropRecord drop = DropOf({{"a", {{Serial{3}, 7}}}});
  EXPECT_EQ(Lost(drop, {"a"}, 1, 100), 7U);
  EXPECT_EQ(Lost(drop, {"a"}, 1, 101), 0U);
}

// A structure that begins with a wildcard stands for topics with '$', too, but a filter does not.
TEST(CountLost, KnowsTopicsThatBeginWithADollar) {
  EXPECT_EQ(Lost(DropOf({{"$x/a", {{Serial{3}, 7}}}}), {"#"}), 0U);
  EXPECT_EQ(Lost(DropOf({{"$x/a", {{Serial{3}, 7}}}}), {"$x/+"}), 7U);
  EXPECT_EQ(Lost(DropOf({{"+/a", {{Serial{3}, 7}}}}), {"$x/a"}), 7U);
  EXPECT_EQ(Lost(DropOf({{"#", {{Serial{3}, 7}}}}), {"$x/a"}), 7U);
}

TEST(CountLost, OfTopicsThatItDoesNotUnderstandCountsAll) {
  EXPECT_EQ(Lost(DropOf({{"a/#/b", {{Serial{3}, 7}}}}), {"z"}), 7U);
}

}  // namespace
}  // namespace topicdb
