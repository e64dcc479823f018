#include "store/read/stream_sources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "store/read/read_parts.h"

namespace topicdb {
namespace {

OpenOptions Options(LayoutKind layout) {
  OpenOptions options;
  options.schema.layout = layout;
  return options;
}

// Two generations: the first has the times 10 to 30, the second 5 and 20.
void FillTwo(ShardParts* shard) {
  shard->Append({{"a", 20, "a20"}, {"b", 10, "b10"}});
  shard->Append({{"a", 30, "a30"}});
  ASSERT_TRUE(shard->generations.Rotate(std::nullopt, std::nullopt, false).ok());
  shard->Append({{"a", 5, "a5"}, {"b", 20, "b20"}});
}

class StreamSources : public ::testing::TestWithParam<LayoutKind> {
 protected:
  StreamSources() : shard_(Options(GetParam())) {}

  ShardParts shard_;
};

TEST_P(StreamSources, OneAfterTheOtherKeepsTheOrderOfThePlan) {
  FillTwo(&shard_);
  SequentialSource source(PlanOf(shard_, {"#"}), {}, &OpenInOrder);
  const Texts expected = GetParam() == LayoutKind::kColumnar
                             ? Texts{"b10", "a20", "a30", "a5", "b20"}
                             : Texts{"a20", "a30", "b10", "a5", "b20"};
  EXPECT_EQ(ReadValues(&source), expected);
}

TEST_P(StreamSources, MergedComeByTimeAndThenInTheOrderOfThePlan) {
  FillTwo(&shard_);
  MergedSource source(PlanOf(shard_, {"#"}), {});
  EXPECT_EQ(ReadValues(&source), (Texts{"a5", "b10", "a20", "b20", "a30"}));
}

TEST_P(StreamSources, ARangeLimitsBoth) {
  FillTwo(&shard_);
  const TimeRange range{10, 30};
  SequentialSource sequential(PlanOf(shard_, {"a"}, range), range, &OpenInOrder);
  EXPECT_EQ(ReadValues(&sequential), Texts{"a20"});
  MergedSource merged(PlanOf(shard_, {"#"}, range), range);
  EXPECT_EQ(ReadValues(&merged), (Texts{"b10", "a20", "b20"}));
}

TEST_P(StreamSources, OfNothingEndAtOnce) {
  SequentialSource sequential({}, {}, &OpenInOrder);
  EXPECT_TRUE(ReadValues(&sequential).empty());
  MergedSource merged({}, {});
  EXPECT_TRUE(ReadValues(&merged).empty());
}

TEST_P(StreamSources, StopAtTheRowsThatTheyMayReturn) {
  FillTwo(&shard_);
  SequentialSource sequential(PlanOf(shard_, {"#"}), {}, &OpenInOrder);
  MergedSource merged(PlanOf(shard_, {"#"}), {});
  for (MessageSource* source : std::vector<MessageSource*>{&sequential, &merged}) {
    std::vector<std::size_t> sizes;
    while (true) {
      Batch batch;
      const auto outcome = source->Read({2, 1 << 20, 1'000}, &batch);
      ASSERT_TRUE(outcome.ok());
      if (batch.size() > 0) sizes.push_back(batch.size());
      if (*outcome == ReadOutcome::kExhausted) break;
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 2, 1}));
  }
}

TEST_P(StreamSources, AnEmptyBatchTakesAMessageOfAnySize) {
  const std::string large(1'000, 'v');
  shard_.Append({{"a", 1, large}, {"b", 2, "small"}, {"c", 3, large}});
  MergedSource source(PlanOf(shard_, {"#"}), {});
  for (const std::string& expected : {large, std::string("small"), large}) {
    Batch batch;
    ASSERT_TRUE(source.Read({10, 100, 1'000}, &batch).ok());
    EXPECT_EQ(ValuesOf(batch), Texts{expected});
  }
}

TEST_P(StreamSources, GiveTheSerialsToABatchThatKeepsThem) {
  FillTwo(&shard_);
  SequentialSource sequential(PlanOf(shard_, {"b"}), {}, &OpenInOrder);
  MergedSource merged(PlanOf(shard_, {"b"}), {});
  for (MessageSource* source : std::vector<MessageSource*>{&sequential, &merged}) {
    Batch batch(/*keeps_serials=*/true);
    ASSERT_EQ(source->Read(kWholeRead, &batch).value(), ReadOutcome::kExhausted);
    ASSERT_EQ(batch.size(), 2U);
    EXPECT_EQ(batch.serial(0), Serial{1});
    EXPECT_EQ(batch.serial(1), shard_.state.view()->serial());
  }
}

TEST_P(StreamSources, MergedNoteTheSlabOfEachMessage) {
  FillTwo(&shard_);
  std::vector<const Slab*> slabs;
  MergedSource source(PlanOf(shard_, {"a"}), {});
  source.NoteSlabs(&slabs);
  EXPECT_EQ(ReadValues(&source, {2, 1 << 20, 1'000}), (Texts{"a5", "a20", "a30"}));
  const auto view = shard_.state.view();
  const Slab* const before = view->slabs()[0].slab.get();
  const Slab* const now = view->slabs()[1].slab.get();
  EXPECT_EQ(slabs, (std::vector<const Slab*>{now, before, before}));
}

TEST_P(StreamSources, MergedReadsPageByPageAndMissesNothing) {
  std::mt19937 random(5);
  std::vector<std::pair<std::int64_t, std::string>> expected;
  std::vector<std::string> topics;
  for (int i = 0; i < 90; ++i) topics.push_back("t" + std::to_string(i));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> values;
    for (int i = 0; i < 9'000; ++i) values.push_back(std::to_string(round * 9'000 + i));
    std::vector<MessageView> messages;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto time = static_cast<std::int64_t>(random() % 1'000'000'000) * 100 +
                        static_cast<std::int64_t>(expected.size() % 100);
      expected.emplace_back(time, values[i]);
      messages.push_back({topics[i % topics.size()], time, values[i]});
    }
    shard_.Append(messages);
    ASSERT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  }
  std::sort(expected.begin(), expected.end());
  MergedSource source(PlanOf(shard_, {"#"}), {});
  const Texts values = ReadValues(&source, {700, 1 << 20, 1'000});
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], expected[i].second) << i;
}

INSTANTIATE_TEST_SUITE_P(Layouts, StreamSources,
                         testing::Values(LayoutKind::kSkipstream, LayoutKind::kColumnar),
                         [](const auto& layout) { return std::string(NameOf(layout.param)); });

// Copies of a message in a log stay beside the one of a later state.
TEST(StreamSourcesOfSeveralLayouts, MergedGiveOlderGenerationsFirst) {
  ShardParts shard;
  shard.Append({{"a", 5, "1"}, {"a", 5, "2"}});
  const auto begin = [&](LayoutKind layout) {
    ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false, layout).ok());
  };
  begin(LayoutKind::kSkipstream);
  shard.Append({{"a", 5, "3"}, {"b", 5, "b"}});
  begin(LayoutKind::kColumnar);
  shard.Append({{"a", 5, "4"}});
  MergedSource all(PlanOf(shard, {"a"}), {});
  EXPECT_EQ(ReadValues(&all), (Texts{"1", "2", "3", "4"}));
  begin(LayoutKind::kSkipstream);
  shard.Append({{"a", 5, "5"}});
  MergedSource later(PlanOf(shard, {"#"}), {});
  EXPECT_EQ(ReadValues(&later), (Texts{"1", "2", "b", "4", "5"}))
      << "a state replaces what older states have, and nothing of a log";
}

TEST(StreamSourcesOfADamagedSlab, FailAndNameIt) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  DamageFirstBlock(&shard, shard.Current());
  shard.Append({{"a", 2, "x"}});
  SequentialSource sequential(PlanOf(shard, {"#"}), {}, &OpenInOrder);
  MergedSource merged(PlanOf(shard, {"#"}), {});
  for (MessageSource* source : std::vector<MessageSource*>{&sequential, &merged}) {
    Batch batch;
    const Status status = source->Read(kWholeRead, &batch).status();
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_NE(status.message().find("generation 1 of shard 0"), std::string::npos);
  }
}

}  // namespace
}  // namespace topicdb
