#include "store/read/stream_plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "store/read/read_parts.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

OpenOptions Options(LayoutKind layout) {
  OpenOptions options;
  options.schema.layout = layout;
  options.schema.structures = Texts{"a/+"};
  options.schema.retention = {{"b/#", 7us}};
  return options;
}

// Returns the structures of each set, none for a set of all streams.
std::vector<Texts> StructuresOf(const Slab& slab, const std::vector<StreamSet>& sets) {
  std::vector<Texts> found;
  for (const StreamSet& set : sets) {
    found.emplace_back();
    if (!set.streams.has_value()) continue;
    for (const StreamId stream : *set.streams) {
      found.back().push_back(slab.StructureOf(stream)->Text());
    }
  }
  return found;
}

std::vector<Texts> Selected(const Slab& slab, const Texts& filters,
                            const std::optional<std::set<StreamId>>& wanted = std::nullopt) {
  return StructuresOf(slab, SelectStreams(slab, FiltersOf(filters), wanted));
}

StreamId StreamOf(const Slab& slab, const std::string& topic) {
  std::vector<std::string_view> varying;
  return slab.FindStream(topic, &varying);
}

// Shards of either layout with messages of three streams of the last class.
class StreamPlanTest : public ::testing::Test {
 protected:
  static void Fill(ShardParts* shard) {
    shard->Append({{"a/1", 5, "1"}, {"c", 3, "2"}, {"a/2", 4, "3"}, {"a", 9, "4"}});
  }
  static StreamTarget TargetOf(const ShardParts& shard, const Texts& filters) {
    const auto view = shard.state.view();
    const auto& slab = view->slabs().back().slab;
    return {view, slab, SelectStreams(*slab, FiltersOf(filters), std::nullopt).front(),
            FiltersOf(filters)};
  }
};

TEST_F(StreamPlanTest, OneReadTakesAllStreamsThatMayMatch) {
  ShardParts shard(Options(LayoutKind::kColumnar));
  Fill(&shard);
  const Slab& slab = *shard.state.view()->slabs().back().slab;
  EXPECT_EQ(Selected(slab, {"a/+"}), std::vector<Texts>{{"a/+"}});
  EXPECT_EQ(Selected(slab, {"a/+", "+", "a/1", "c"})[0].size(), 3U) << "each stream once";
  EXPECT_EQ(Selected(slab, {"#"}), std::vector<Texts>{{}}) << "without naming them";
  EXPECT_EQ(Selected(slab, {"a/1", "#"}), std::vector<Texts>{{}});
  EXPECT_FALSE(SelectStreams(slab, {Filter::Everything()}, std::nullopt)[0].streams.has_value());
  EXPECT_TRUE(Selected(slab, {"d"}).empty());
  const std::set<StreamId> only_c{StreamOf(slab, "c")};
  EXPECT_EQ(Selected(slab, {"#"}, only_c), std::vector<Texts>{{"c"}});
  EXPECT_TRUE(Selected(slab, {"a/#"}, only_c).empty());
}

TEST_F(StreamPlanTest, ALayoutThatReadsOneStreamHasASetForEachByStructure) {
  ShardParts shard(Options(LayoutKind::kSkipstream));
  Fill(&shard);
  const Slab& slab = *shard.state.view()->slabs().back().slab;
  EXPECT_EQ(Selected(slab, {"#"}), (std::vector<Texts>{{"a"}, {"a/+"}, {"c"}}));
  EXPECT_EQ(Selected(slab, {"a/2", "a/1", "c", "a/+"}), (std::vector<Texts>{{"a/+"}, {"c"}}));
  EXPECT_EQ(SelectStreams(slab, FiltersOf({"a/2"}), std::nullopt)[0].structure.Text(), "a/+");
  EXPECT_EQ(Selected(slab, {"#"}, std::set<StreamId>{StreamOf(slab, "c")}),
            std::vector<Texts>{{"c"}});
  EXPECT_TRUE(Selected(slab, {"d"}).empty());
}

TEST_F(StreamPlanTest, StreamsAreAddedByStructureWithinTheirNumbers) {
  ShardParts shard(Options(LayoutKind::kColumnar));
  Fill(&shard);
  const Slab& slab = *shard.state.view()->slabs().back().slab;
  const auto added = [&](const StreamNumbers& numbers) {
    std::vector<Stream> streams;
    AddStreams(*shard.state.environment, slab, FiltersOf({"#"}).front(), numbers, &streams);
    return streams;
  };
  const std::vector<Stream> all = added({});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].structure, "a");
  EXPECT_EQ(all[1].structure, "a/+");
  EXPECT_EQ(all[2].structure, "c");
  EXPECT_EQ(all[0].database, shard.state.environment->database);
  EXPECT_EQ(all[0].slab, slab.id());
  EXPECT_EQ(all[0].retention_class, "#");
  EXPECT_EQ(all[2].id, StreamOf(slab, "c"));
  const StreamId first = std::min({all[0].id, all[1].id, all[2].id});
  const StreamId last = std::max({all[0].id, all[1].id, all[2].id});
  EXPECT_EQ(added({first, last}).size(), 2U) << "behind the first one";
  EXPECT_EQ(added({first, last.Previous()}).size(), 1U) << "up to the last one";
}

TEST_F(StreamPlanTest, GoesByWhenSlabsBeganWhateverTheirClass) {
  ShardParts shard(Options(LayoutKind::kColumnar));
  shard.Append({{"b/1", 1, "x"}, {"c", 1, "x"}});
  const RetentionClassId last_class = shard.state.view()->slabs().back().slab->id().retention_class;
  ASSERT_TRUE(shard.generations.Rotate(last_class, std::nullopt, false).ok());
  shard.Append({{"c", 2, "x"}});
  ASSERT_TRUE(shard.generations.Rotate(RetentionClassId{0}, std::nullopt, false).ok());
  shard.Append({{"b/1", 20, "x"}, {"c", 3, "x"}});
  const auto plan = [&](const TimeRange& range, const std::optional<std::vector<Stream>>& wanted) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> slabs;
    for (const StreamTarget& target :
         PlanStreams({{nullptr, shard.state.view()}}, FiltersOf({"#"}), range, wanted)) {
      EXPECT_EQ(target.filters.size(), 1U);
      slabs.emplace_back(target.slab->id().retention_class.value(),
                         target.slab->id().generation.value());
    }
    return slabs;
  };
  using Slabs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(plan({}, std::nullopt), (Slabs{{0, 1}, {1, 1}, {1, 2}, {0, 2}}));
  EXPECT_EQ(plan({2, 4}, std::nullopt), (Slabs{{1, 2}})) << "others have nothing of that time";
  std::vector<Stream> wanted;
  AddStreams(*shard.state.environment, *shard.state.view()->slabs().front().slab,
             FiltersOf({"#"}).front(), {}, &wanted);
  ASSERT_EQ(wanted.size(), 1U);
  EXPECT_EQ(plan({}, wanted), (Slabs{{0, 1}}));
  EXPECT_TRUE(plan({}, std::vector<Stream>()).empty());
}

TEST_F(StreamPlanTest, MasksHideWhatDeletesOfTheSlabMatchAndHiddenCommits) {
  const meta::DeleteRecord of_all{
      Serial{5}, 0, {Filter::Parse("a/#").value(), {10, 20}}, meta::kEveryGeneration};
  const meta::DeleteRecord of_other{Serial{6}, 0, {Filter::Everything(), {}}, Generation{2}};
  const SlabId id{0, RetentionClassId{1}, Generation{1}};
  const std::vector<RowMask> masks = MasksOf({of_other, of_all}, id);
  ASSERT_EQ(masks.size(), 1U);
  EXPECT_TRUE(masks[0].Hides("a/1", 10, Serial{5}, 0));
  EXPECT_FALSE(masks[0].Hides("a/1", 10, Serial{6}, 0)) << "it was committed later";
  EXPECT_FALSE(masks[0].Hides("a/1", 20, Serial{5}, 0));
  EXPECT_FALSE(masks[0].Hides("b", 10, Serial{5}, 0));
  EXPECT_EQ(MasksOf({of_other, of_all}, {0, RetentionClassId{1}, Generation{2}}).size(), 2U);

  ShardParts shard;
  const ShardView hiding(shard.state.view(), {{Serial{3}, Serial{4}}});
  const std::vector<RowMask> of_view = MasksOf(hiding, shard.Current());
  ASSERT_EQ(of_view.size(), 1U);
  EXPECT_TRUE(of_view[0].Hides("$x", 0, Serial{3}, 0));
  EXPECT_TRUE(of_view[0].Hides("a", 99, Serial{4}, 0));
  EXPECT_FALSE(of_view[0].Hides("a", 99, Serial{2}, 0));
  EXPECT_FALSE(of_view[0].Hides("a", 99, Serial{5}, 0));
  EXPECT_TRUE(Except(FiltersOf({"a/+"}).front()).Hides("a/1", 99, kLastSerial, 0));
  EXPECT_FALSE(Except(FiltersOf({"a/+"}).front()).Hides("b", 99, Serial{1}, 0));
}

TEST(RowMask, EndsWithinItsLastCommit) {
  const RowMask mask{Filter::Everything(), {5, 9}, Serial{3}, Serial{2}, 1};
  EXPECT_TRUE(mask.Hides("a", 5, Serial{3}, 1));
  EXPECT_FALSE(mask.Hides("a", 5, Serial{3}, 2));
  EXPECT_TRUE(mask.Hides("a", 5, Serial{2}, 2)) << "of the commit before it hides all";
  EXPECT_FALSE(mask.Hides("a", 5, Serial{1}, 0));
  EXPECT_FALSE(mask.Hides("a", 9, Serial{3}, 1));
}

// What the messages of a hidden commit have replaced is gone.
TEST_F(StreamPlanTest, NoCommitIsHiddenInASlabWithoutALog) {
  ShardParts shard(Options(LayoutKind::kSkipstream));
  const ShardView hiding(shard.state.view(), {{Serial{3}, Serial{4}}});
  EXPECT_TRUE(MasksOf(hiding, shard.Current()).empty());
}

TEST_F(StreamPlanTest, AReaderCountsForItsSlabOnceItIsGone) {
  ShardParts shard(Options(LayoutKind::kColumnar));
  Fill(&shard);
  const StreamTarget target = TargetOf(shard, {"a/1", "c"});
  {
    const auto reader = OpenReader(target, {}, StartOf({}));
    EXPECT_EQ(ReadValues(reader.get()), (Texts{"2", "1"})) << "by time";
    EXPECT_EQ(reader->counters().rows_matched, 2U);
    EXPECT_EQ(target.slab->reads().rows_matched, 0U);
    EXPECT_EQ(reader->position().timestamp, 5);
  }
  EXPECT_EQ(target.slab->reads().rows_matched, 2U);
  EXPECT_EQ(ReadValues(OpenReader(target, {4, 6}, StartOf({4, 6})).get()), Texts{"1"});
}

TEST_F(StreamPlanTest, WithoutOrderEachMessageComesOnceToo) {
  for (const LayoutKind layout : {LayoutKind::kColumnar, LayoutKind::kSkipstream}) {
    ShardParts shard(Options(layout));
    Fill(&shard);
    const StreamTarget target = TargetOf(shard, {"a/1", "a/+"});
    Texts values = ReadValues(OpenUnordered(target, {}).get());
    std::sort(values.begin(), values.end());
    EXPECT_EQ(values, (Texts{"1", "3"})) << NameOf(layout);
    EXPECT_EQ(ReadValues(OpenUnordered(target, {5, 6}).get()), Texts{"1"}) << NameOf(layout);
  }
}

TEST_F(StreamPlanTest, TheLastMessagesAreThoseOfTheRange) {
  ShardParts shard(Options(LayoutKind::kColumnar));
  Fill(&shard);
  shard.Append({{"a/1", 8, "5"}});
  LastMessages found;
  const auto reader = OpenLastReader(TargetOf(shard, {"a/+"}), {0, 8}, &found);
  ASSERT_EQ(reader->Read(1'000).value(), ReadOutcome::kExhausted);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found.entry(found.Find("a/1").value()).value, "1");
}

TEST_F(StreamPlanTest, ErrorsNameTheSlab) {
  ShardParts shard(Options(LayoutKind::kColumnar));
  Fill(&shard);
  DamageFirstBlock(&shard, *shard.state.view()->slabs().back().slab);
  Fill(&shard);
  const StreamTarget target = TargetOf(shard, {"#"});
  for (const auto& reader : {OpenReader(target, {}, StartOf({})), OpenUnordered(target, {})}) {
    Batch batch;
    const Status status = reader->Read(kWholeRead, &batch).status();
    EXPECT_EQ(status.code(), Code::kCorruption);
    EXPECT_TRUE(status.message().starts_with("class '#', generation 1 of shard 0 of "))
        << status.message();
  }
}

TEST(StreamPlan, ArgumentsOfShardsThatAreNotThereAreRefused) {
  EXPECT_TRUE(CheckShards("after", {{0, Serial{1}}, {1, Serial{9}}}, 2).ok());
  const Status status = CheckShards("after", {{0, Serial{1}}, {2, Serial{9}}}, 2);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "after: there is no shard 2, the database has 2");
}

TEST(StreamPlan, ARangeIsReadFromItsStart) {
  EXPECT_EQ(StartOf({7, 9}), (Position{Position::Kind::kAtTime, 7, kNoSerial, 0, {}}));
  EXPECT_EQ(StartOf({}).timestamp, 0);
}

TEST(StreamPlan, ASlabHasAName) {
  EXPECT_EQ(DescribeSlab({2, RetentionClassId{5}, Generation{3}}, "a/#"),
            "class 'a/#', generation 3 of shard 2");
}

}  // namespace
}  // namespace topicdb
