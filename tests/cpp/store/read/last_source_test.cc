#include "store/read/last_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/read/read_parts.h"

namespace topicdb {
namespace {

class LastSourceTest : public ::testing::TestWithParam<LayoutKind> {
 protected:
  LastSourceTest() : shard_(Options()) {}

  static OpenOptions Options() {
    OpenOptions options;
    options.schema.layout = GetParam();
    options.schema.structures = Texts{"t/+"};
    return options;
  }
  void Rotate() { ASSERT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok()); }

  ShardParts shard_;
};

TEST_P(LastSourceTest, GivesTheNewestOfEachTopicByTopic) {
  shard_.Append({{"b", 10, "old"}, {"c", 30, "of the first slab"}, {"a", 10, "old"}});
  Rotate();
  shard_.Append({{"c", 20, "late"}, {"b", 20, "of the second slab"}});
  Rotate();
  shard_.Append({{"a", 15, "of the third slab"}});
  LastSource source(PlanOf(shard_, {"#"}), {});
  Batch batch(/*keeps_serials=*/true);
  ASSERT_EQ(source.Read(kWholeRead, &batch).value(), ReadOutcome::kExhausted);
  EXPECT_EQ(ValuesOf(batch),
            (Texts{"of the third slab", "of the second slab", "of the first slab"}));
  EXPECT_EQ(batch.topic(2), "c");
  EXPECT_EQ(batch.timestamp(2), 30);
  EXPECT_EQ(batch.serial(2), Serial{1});
}

TEST_P(LastSourceTest, AtOneTimeTheLaterCommitCounts) {
  shard_.Append({{"a", 10, "first"}});
  shard_.Append({{"a", 10, "second"}});
  Rotate();
  shard_.Append({{"b", 99, "x"}});
  LastSource source(PlanOf(shard_, {"#"}), {});
  EXPECT_EQ(ReadValues(&source), (Texts{"second", "x"}));
}

TEST_P(LastSourceTest, OfARangeAndAFilterGivesTheNewestInThem) {
  shard_.Append({{"a/1", 10, "1"}, {"a/1", 20, "2"}, {"a/2", 30, "3"}, {"b", 5, "4"}});
  const TimeRange range{0, 20};
  LastSource source(PlanOf(shard_, {"a/+"}, range), range);
  EXPECT_EQ(ReadValues(&source), Texts{"1"});
}

TEST_P(LastSourceTest, GivesThemWithinTheLimits) {
  std::vector<std::string> topics;
  std::vector<MessageView> messages;
  for (int i = 100; i < 150; ++i) topics.push_back("t/" + std::to_string(i));
  for (const std::string& topic : topics) messages.push_back({topic, 1, topic});
  shard_.Append(messages);
  LastSource by_rows(PlanOf(shard_, {"#"}), {});
  EXPECT_EQ(ReadValues(&by_rows, {7, 1 << 20, 1'000'000}), topics);
  LastSource by_bytes(PlanOf(shard_, {"#"}), {});
  std::size_t reads = 0;
  for (Texts found; found.size() < topics.size(); ++reads) {
    Batch batch;
    ASSERT_TRUE(by_bytes.Read({1'000, 100, 1'000'000}, &batch).ok());
    ASSERT_FALSE(batch.empty());
    EXPECT_LE(batch.bytes(), 100U);
    for (const std::string& value : ValuesOf(batch)) found.push_back(value);
  }
  EXPECT_EQ(reads, 17U) << "three messages of 26 bytes at a time";
}

TEST_P(LastSourceTest, LooksThroughAFewRowsAtATime) {
  std::vector<MessageView> messages;
  for (int i = 0; i < 1'000; ++i) messages.push_back({"t/1", i, "old"});
  shard_.Append(messages);
  Rotate();
  shard_.Append(messages);
  shard_.Append({{"t/2", 1, "new"}});
  LastSource source(PlanOf(shard_, {"#"}), {});
  std::size_t reads = 0;
  Batch batch;
  while (batch.empty()) {
    ASSERT_LT(++reads, 100'000U);
    const auto outcome = source.Read({10, 1 << 20, 1}, &batch);
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(*outcome == ReadOutcome::kMore, batch.empty());
  }
  EXPECT_GT(reads, 1U);
  EXPECT_EQ(ValuesOf(batch), (Texts{"old", "new"}));
}

TEST_P(LastSourceTest, CountsWhatItHasReadForTheSlabs) {
  shard_.Append({{"a", 1, "x"}, {"a", 2, "y"}, {"b", 1, "z"}});
  const auto examined = [&] { return shard_.Current().reads().rows_examined; };
  EXPECT_EQ(examined(), 0U);
  {
    LastSource source(PlanOf(shard_, {"#"}), {});
    EXPECT_EQ(ReadValues(&source).size(), 2U);
  }
  EXPECT_GE(examined(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LastSourceTest,
                         testing::Values(LayoutKind::kSkipstream, LayoutKind::kColumnar),
                         [](const auto& layout) { return std::string(NameOf(layout.param)); });

TEST(LastSource, OfADamagedSlabFailsAndNamesIt) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  DamageFirstBlock(&shard, shard.Current());
  shard.Append({{"b", 1, "x"}});
  LastSource source(PlanOf(shard, {"#"}), {});
  Batch batch;
  const Status status = source.Read(kWholeRead, &batch).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("generation 1 of shard 0"), std::string::npos);
}

}  // namespace
}  // namespace topicdb
