#include "store/shard/generation/generations.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
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
