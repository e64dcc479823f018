#include "store/shard/generation/generations.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

OpenOptions TwoClasses() {
  OpenOptions options;
  options.schema.retention = {{"a/#", 5us}, {"#", 0us}};
  return options;
}

// Holds class and generation of each slab. The generation of a read-only slab is negative.
using Slabs = std::vector<std::pair<std::uint32_t, int>>;
Slabs SlabsOf(const ShardParts& shard) {
  Slabs slabs;
  for (const SlabView& view : shard.state.view()->slabs()) {
    const int generation = static_cast<int>(view.slab->id().generation.value());
    slabs.emplace_back(view.slab->id().retention_class.value(),
                       view.read_only ? -generation : generation);
  }
  return slabs;
}

TEST(Generations, RotatingEndsOneClassOrAll) {
  ShardParts shard(TwoClasses());
  shard.Append({{"a/1", 1, "first"}, {"b", 1, "first"}});
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, 1}, {1, 1}}));
  ASSERT_TRUE(shard.generations.Rotate(RetentionClassId{0}, std::nullopt, false).ok());
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, -1}, {0, 2}, {1, 1}}));
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, -1}, {0, -2}, {0, 3}, {1, -1}, {1, 2}}));
  shard.Append({{"a/1", 2, "second"}});
  EXPECT_EQ(shard.state.view()->slabs()[2].slab->Info({}).messages, 1U);
  EXPECT_EQ(shard.Get("a/1", 1), "first");
  EXPECT_EQ(shard.Get("a/1", 2), "second");
}

TEST(Generations, ThoseOfReservedTopicsAreMadeOnce) {
  ShardParts shard(TwoClasses());
  ASSERT_TRUE(shard.generations.EnsureReserved().ok());
  const Slabs slabs{{0, 1}, {1, 1}, {2, 1}};
  EXPECT_EQ(SlabsOf(shard), slabs);
  ASSERT_TRUE(shard.generations.EnsureReserved().ok());
  EXPECT_EQ(SlabsOf(shard), slabs);
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, -1}, {0, 2}, {1, -1}, {1, 2}, {2, 1}}))
      << "users do not rotate it";
}

TEST(Generations, ClassesThatTopicsComeIntoOrLeaveBeginAnewIfTheyHaveAny) {
  ShardParts shard(TwoClasses());
  shard.Append({{"a/1", 1, "x"}});
  const auto rules = shard.state.environment->rules();
  const auto changed = std::make_shared<const RetentionRules>(
      rules->With({{"a/x", 7us}, {"a/#", 5us}, {"#", 0us}}).value());
  ASSERT_TRUE(shard.generations.Adopt(changed).ok());
  const std::uint32_t added = changed->IndexOf("a/x").value().value();
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, -1}, {0, 2}, {1, 1}, {added, 1}}))
      << "a/# has lost topics; # has had no message";
  shard.Append({{"a/x", 2, "y"}});
  EXPECT_EQ(shard.state.view()->slabs().back().slab->Info({}).messages, 1U);
  ASSERT_TRUE(shard.generations.Adopt(changed).ok());
  EXPECT_EQ(SlabsOf(shard).size(), 4U) << "nothing has changed";
}

// Rules become those of a database before each shard adopts them.
TEST(Generations, ThoseOfAClassThatTheShardHasNotAdoptedAreNotRotated) {
  ShardParts shard(TwoClasses());
  const auto environment = shard.state.environment;
  environment->retention->Set(environment->rules()->With({{"new/#", 7us}, {"a/#", 5us}}).value());
  const RetentionClassId added = environment->rules()->IndexOf("new/#").value();
  ASSERT_TRUE(shard.generations.Rotate(added, std::nullopt, false).ok());
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, 1}, {1, 1}})) << "none has begun";
  ASSERT_TRUE(shard.generations.Adopt(environment->rules()).ok());
  ASSERT_TRUE(shard.generations.Rotate(added, std::nullopt, false).ok());
  const std::uint32_t number = added.value();
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, 1}, {1, 1}, {number, -1}, {number, 2}}));
}

// The layout of each slab, in the order of SlabsOf.
std::vector<LayoutKind> LayoutsOf(const ShardParts& shard) {
  std::vector<LayoutKind> layouts;
  for (const SlabView& view : shard.state.view()->slabs()) {
    layouts.push_back(view.slab->layout_kind());
  }
  return layouts;
}
constexpr LayoutKind kLog = LayoutKind::kColumnar;
constexpr LayoutKind kState = LayoutKind::kSkipstream;
using Layouts = std::vector<LayoutKind>;

TEST(Generations, ANewOneMayHaveAnotherLayoutAndTheNextOnesKeepIt) {
  ShardParts shard;
  shard.Append({{"a", 1, "log"}});
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false, kState).ok());
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState}));
  shard.Append({{"a", 1, "state"}, {"a", 2, "state"}});
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState, kState}));
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false, kLog).ok());
  shard.Append({{"a", 3, "log again"}});
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState, kState, kLog}));
  EXPECT_EQ(shard.Get("a", 1), "state") << "the last one";
  EXPECT_EQ(shard.Get("a", 2), "state");
  EXPECT_EQ(shard.Get("a", 3), "log again");
}

TEST(Generations, AChangeOfLayoutIsACommitAndEndsTransactions) {
  ShardParts shard;
  const Serial last = shard.Append({{"a", 1, "x"}});
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false, kLog).ok());
  EXPECT_EQ(shard.state.view()->serial(), last) << "the layout is the same";
  TransactionOps ops;
  ops.start_serial = last;
  ops.begun = std::chrono::steady_clock::now();
  ops.reads.push_back({Filter::Parse("a").value(), {}});
  shard.state.BeginTransaction();
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false, kState).ok());
  EXPECT_EQ(shard.state.view()->serial(), last.Next());
  EXPECT_EQ(shard.state.view()->slabs().back().slab->begun_at(), last.Next());
  const auto commit = shard.Commit({{"b", 1, "y"}}, &ops);
  EXPECT_EQ(commit->status.code(), Code::kConflict) << commit->status.message();
  shard.state.EndTransaction();
  EXPECT_EQ(shard.Append({{"b", 1, "y"}}), last.Next(2));
}

TEST(Generations, RulesThatNameALayoutBeginOneOfThatLayout) {
  ShardParts shard(TwoClasses());
  shard.Append({{"a/1", 1, "x"}});
  const auto with = [&](std::optional<LayoutKind> of_a, std::optional<LayoutKind> of_rest) {
    const auto environment = shard.state.environment;
    environment->retention->Set(
        environment->rules()
            ->With({{"a/#", 5us, 0, 0us, 0, of_a}, {"#", 0us, 0, 0us, 0, of_rest}})
            .value());
    return shard.generations.Adopt(environment->rules());
  };
  ASSERT_TRUE(with(kState, std::nullopt).ok());
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, -1}, {0, 2}, {1, 1}}));
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState, kLog}));
  ASSERT_TRUE(with(kState, kLog).ok());
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState, kLog})) << "they have these layouts";
  ASSERT_TRUE(with(kState, kState).ok());
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState, kLog, kState})) << "though it was empty";
  ASSERT_TRUE(with(std::nullopt, kState).ok());
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState, kLog, kState})) << "none is named for a/#";
  // What is asked for by hand holds for one generation.
  ASSERT_TRUE(shard.generations.Rotate(RetentionClassId{1}, std::nullopt, false, kLog).ok());
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState, kLog, kState, kLog}));
  ASSERT_TRUE(shard.generations.Rotate(RetentionClassId{1}, std::nullopt, false).ok());
  EXPECT_EQ(LayoutsOf(shard), (Layouts{kLog, kState, kLog, kState, kLog, kState}));
}

TEST(Generations, AMessageOfStateReplacesThoseOfOtherStatesAlone) {
  ShardParts shard;
  const auto values = [&] {
    std::vector<std::string> found;
    std::vector<std::string_view> varying;
    const auto moment = shard.state.view();
    for (const SlabView& view : moment->slabs()) {
      const StreamId stream = view.slab->FindStream("a", &varying);
      const PlacedMessage place{stream, "a", varying, 1, kNoSerial, 0, {}};
      const auto stored = view.slab->layout().Get(moment->Source(*view.slab), place, {});
      EXPECT_TRUE(stored.ok()) << stored.status().message();
      found.push_back(stored->has_value() ? (*stored)->value : "-");
    }
    return found;
  };
  using Values = std::vector<std::string>;
  shard.Append({{"a", 1, "1"}});
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false, kState).ok());
  shard.Append({{"a", 1, "2"}});
  EXPECT_EQ(values(), (Values{"1", "2"}));
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  shard.Append({{"a", 1, "3"}});
  EXPECT_EQ(values(), (Values{"1", "-", "3"}));
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false, kLog).ok());
  shard.Append({{"a", 1, "4"}});
  EXPECT_EQ(values(), (Values{"1", "-", "3", "4"}));
}

TEST(Generations, AfterAFailedWriteNoneBegins) {
  ShardParts shard;
  {
    const MutexLock lock(shard.state.mutex);
    shard.state.Poison(StorageFault("a test"));
  }
  EXPECT_EQ(shard.generations.Rotate(std::nullopt, std::nullopt, false).code(), Code::kStorage);
  EXPECT_EQ(SlabsOf(shard), (Slabs{{0, 1}}));
}

}  // namespace
}  // namespace topicdb
