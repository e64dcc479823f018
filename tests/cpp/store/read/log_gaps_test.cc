#include "store/read/log_gaps.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "store/read/read_parts.h"

namespace topicdb {
namespace {

constexpr LayoutKind kLog = LayoutKind::kColumnar;
constexpr LayoutKind kState = LayoutKind::kSkipstream;
constexpr RetentionClassId kClassA{0};

// A shard of the classes a/# and #, whose generations are of both layouts.
class LogGapsTest : public ::testing::Test {
 protected:
  LogGapsTest() : shard_(Options()) {}

  static OpenOptions Options() {
    OpenOptions options;
    options.schema.retention = std::vector{RetentionClass{"a/#", {}, 0, {}, 0}};
    return options;
  }
  void Rotate(RetentionClassId retention_class, LayoutKind layout) {
    ASSERT_TRUE(shard_.generations.Rotate(retention_class, std::nullopt, false, layout).ok());
  }
  // Returns the first commit of the gap for a reader of these topics, or zero if there is none.
  std::uint64_t Gap(const Texts& filters, std::uint64_t from, const TimeRange& range = {}) const {
    const auto gap =
        LogGaps(WantsOf(FiltersOf(filters), range)).FindWanted(*shard_.state.view(), Serial{from});
    return gap.has_value() ? gap->first.value() : 0;
  }
  // Returns whether a reader of these topics may begin there.
  bool MayBegin(const Texts& filters, std::uint64_t from, Serial until = kLastSerial) const {
    const Status status = CheckLogFrom(*shard_.state.view(), *shard_.state.environment->rules(),
                                       WantsOf(FiltersOf(filters), {}), Serial{from}, until);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kSchema);
      EXPECT_NE(status.message().find("keeps no commit log"), std::string::npos);
    }
    return status.ok();
  }

  ShardParts shard_;
};

TEST_F(LogGapsTest, ThereAreNoneWhereAllGenerationsKeepALog) {
  shard_.Append({{"a/1", 1, "x"}, {"b", 1, "x"}});
  Rotate(kClassA, kLog);
  EXPECT_EQ(Gap({"#"}, 1), 0U);
  EXPECT_TRUE(MayBegin({"#"}, 1));
  EXPECT_FALSE(LogGaps::FindAny(*shard_.state.view(), Serial{1}).has_value());
}

TEST_F(LogGapsTest, ReservedTopicsAreNone) {
  ASSERT_TRUE(shard_.generations.EnsureReserved().ok());
  shard_.Append({{"$topicdb/owner/m", 0, "x"}});
  EXPECT_EQ(
      LogGaps(WantsOf({Filter::Everything()}, {})).FindWanted(*shard_.state.view(), Serial{1}),
      std::nullopt);
  EXPECT_TRUE(MayBegin({"#"}, 1));
}

// Commits 1 and 2 are in the log, 3 changes the layout of a/#, 4 and 5 are in a state, 6 changes
// the layout again, 7 is in the log.
TEST_F(LogGapsTest, TheyBeginAndEndWithTheGeneration) {
  shard_.Append({{"a/1", 1, "x"}});
  shard_.Append({{"b", 1, "x"}});
  Rotate(kClassA, kState);
  EXPECT_EQ(Gap({"a/#"}, 1), 0U) << "it has no messages";
  EXPECT_TRUE(MayBegin({"a/#"}, 1)) << "there is something to read before it";
  EXPECT_FALSE(MayBegin({"a/#"}, 4)) << "what comes goes there";
  EXPECT_FALSE(MayBegin({"+/1"}, 4));
  EXPECT_TRUE(MayBegin({"b"}, 4)) << "nothing of it goes there";
  EXPECT_TRUE(MayBegin({"b/#", "c"}, 1));
  EXPECT_TRUE(MayBegin({"a/#"}, 4, Serial{3})) << "it ends before";
  EXPECT_EQ(shard_.Append({{"a/1", 5, "x"}}), Serial{4});
  EXPECT_EQ(shard_.Append({{"b", 1, "x"}}), Serial{5});
  for (const std::uint64_t from : {1U, 3U, 4U}) EXPECT_EQ(Gap({"a/#"}, from), 4U) << from;
  EXPECT_EQ(Gap({"a/#"}, 5), 5U) << "there may be more";
  EXPECT_EQ(Gap({"b"}, 1), 0U);
  EXPECT_EQ(Gap({"b", "+/1"}, 1), 4U);
  EXPECT_EQ(Gap({"a/2"}, 1), 0U) << "there is no such topic";
  EXPECT_EQ(Gap({"a/#"}, 1, {std::nullopt, 5}), 0U) << "no message is so old";
  EXPECT_EQ(Gap({"a/#"}, 1, {5, 6}), 4U);
  Rotate(kClassA, kLog);
  shard_.Append({{"a/1", 6, "x"}});
  EXPECT_EQ(Gap({"a/#"}, 1), 4U);
  EXPECT_EQ(Gap({"a/#"}, 6), 6U);
  EXPECT_EQ(Gap({"a/#"}, 7), 0U);
  EXPECT_TRUE(MayBegin({"a/#"}, 1));
  EXPECT_FALSE(MayBegin({"a/#"}, 5));
  EXPECT_TRUE(MayBegin({"a/#"}, 7));
  const auto view = shard_.state.view();
  const Slab& state = *view->slabs()[1].slab;
  EXPECT_EQ(LastCommitOf(*view, state), Serial{6});
  EXPECT_TRUE(MayHaveCommits(*view, state, Serial{3}, Serial{4}));
  EXPECT_FALSE(MayHaveCommits(*view, state, Serial{2}, Serial{3}));
  EXPECT_FALSE(MayHaveCommits(*view, state, Serial{6}, kLastSerial));
  EXPECT_EQ(LogGaps::FindAny(*view, Serial{1}), (LogGap{state.id(), Serial{4}}));
}

TEST_F(LogGapsTest, TheFirstOfSeveralCounts) {
  Rotate(RetentionClassId{1}, kState);
  shard_.Append({{"b", 1, "x"}});
  Rotate(kClassA, kState);
  shard_.Append({{"a/1", 1, "x"}});
  const auto gap =
      LogGaps(WantsOf(FiltersOf({"#"}), {})).FindWanted(*shard_.state.view(), Serial{1});
  ASSERT_TRUE(gap.has_value());
  EXPECT_EQ(gap->slab, (SlabId{0, RetentionClassId{1}, Generation{2}}));
  EXPECT_EQ(gap->first, Serial{2});
  EXPECT_EQ(Gap({"a/#"}, 1), 4U);
}

TEST_F(LogGapsTest, EachWantsForItself) {
  Rotate(kClassA, kState);
  shard_.Append({{"a/1", 5, "x"}});
  const auto find = [&](std::vector<LogWant> wants) {
    return LogGaps(std::move(wants)).FindWanted(*shard_.state.view(), Serial{1}).has_value();
  };
  const Filter of_a = Filter::Parse("a/#").value();
  const Filter of_b = Filter::Parse("b").value();
  EXPECT_FALSE(find({{of_a, {6, std::nullopt}}, {of_b, {}}}));
  EXPECT_TRUE(find({{of_b, {}}, {of_a, {5, std::nullopt}}}));
  EXPECT_FALSE(find({}));
}

// A reader that has looked at the streams of a slab looks again when there are more of them.
TEST_F(LogGapsTest, NewTopicsAreSeen) {
  Rotate(kClassA, kState);
  LogGaps gaps(WantsOf(FiltersOf({"a/2"}), {}));
  shard_.Append({{"a/1", 1, "x"}});
  EXPECT_FALSE(gaps.FindWanted(*shard_.state.view(), Serial{1}).has_value());
  EXPECT_FALSE(gaps.FindWanted(*shard_.state.view(), Serial{1}).has_value());
  shard_.Append({{"a/2", 1, "x"}});
  EXPECT_TRUE(gaps.FindWanted(*shard_.state.view(), Serial{1}).has_value());
}

}  // namespace
}  // namespace topicdb
