#include "store/shard/upkeep/shard_sealing.h"

#include <gtest/gtest.h>

#include <string>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

bool IsDue(ShardParts& shard) {
  const MutexLock lock(shard.state.mutex);
  return shard.sealing.IsDue();
}

TEST(ShardSealing, SealsAllThatIsFreshAndReadersSeeTheSame) {
  ShardParts shard;
  for (int time = 1; time <= 5; ++time) shard.Append({{"a", time, "x"}});
  EXPECT_EQ(shard.FreshBlocks(), 5U);
  ASSERT_TRUE(shard.sealing.SealAll().ok());
  EXPECT_EQ(shard.FreshBlocks(), 0U);
  EXPECT_EQ(shard.Current().layout_state()->fresh_bytes, 0U);
  for (int time = 1; time <= 5; ++time) EXPECT_EQ(shard.Get("a", time), "x");
  ASSERT_TRUE(shard.sealing.SealAll().ok()) << "with nothing to do";
  const MutexLock lock(shard.state.mutex);
  EXPECT_TRUE(shard.sealing.status().ok());
}

TEST(ShardSealing, IsDueBySizeAndByCount) {
  OpenOptions options;
  options.seal_bytes = std::size_t{1} << 20;
  ShardParts shard(options);
  const SealLimits& limits = shard.state.environment->seal_limits;
  shard.Append({{"a", 1, "x"}});
  EXPECT_FALSE(IsDue(shard));
  EXPECT_FALSE(shard.sealing.HasMuchFresh());
  const std::string large(limits.fresh_bytes_max / 8, 'v');
  shard.Append({{"a", 2, large}});
  EXPECT_FALSE(IsDue(shard));
  EXPECT_TRUE(shard.sealing.HasMuchFresh()) << "closing would seal it";
  for (int time = 3; time <= 10; ++time) shard.Append({{"a", time, large}});
  EXPECT_TRUE(IsDue(shard));
  ASSERT_TRUE(shard.sealing.SealAll().ok());
  EXPECT_FALSE(IsDue(shard));
  EXPECT_FALSE(shard.sealing.HasMuchFresh());
  for (std::size_t i = 1; i < limits.fresh_blocks_max; ++i) shard.Append({{"b", 1, "x"}});
  EXPECT_FALSE(IsDue(shard));
  shard.Append({{"b", 1, "x"}});
  EXPECT_TRUE(IsDue(shard));
}

TEST(ShardSealing, AfterAFailedWriteItFailsAndSaysSo) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  {
    const MutexLock lock(shard.state.mutex);
    shard.state.Poison(StorageFault("a test"));
  }
  EXPECT_EQ(shard.sealing.SealAll().code(), Code::kStorage);
  EXPECT_EQ(shard.FreshBlocks(), 1U);
  EXPECT_TRUE(IsDue(shard)) << "it is tried again";
  const MutexLock lock(shard.state.mutex);
  EXPECT_EQ(shard.sealing.status().code(), Code::kStorage);
}

}  // namespace
}  // namespace topicdb
