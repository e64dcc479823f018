#include "replication/raft/leader_balance.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace topicdb::replication {
namespace {

TEST(LeaderBalance, ShardsMoveUntilAllLeadAboutAsMany) {
  std::map<std::uint32_t, std::uint64_t> leaders;
  for (std::uint32_t shard = 0; shard < 16; ++shard) leaders[shard] = 1;
  const auto moves = PlanBalance(leaders, {1, 2, 3});
  EXPECT_EQ(moves.size(), 10U);
  for (const LeaderMove& move : moves) {
    EXPECT_EQ(leaders[move.shard], move.from);
    leaders[move.shard] = move.to;
  }
  std::map<std::uint64_t, int> counts;
  for (const auto& [shard, leader] : leaders) ++counts[leader];
  EXPECT_EQ(counts, (std::map<std::uint64_t, int>{{1, 6}, {2, 5}, {3, 5}}));
}

TEST(LeaderBalance, NothingMovesThatNeedNot) {
  EXPECT_TRUE(PlanBalance({{0, 1}, {1, 2}, {2, 1}}, {1, 2}).empty());
  EXPECT_TRUE(PlanBalance({{0, 1}, {1, 1}}, {1}).empty());
  EXPECT_TRUE(PlanBalance({{0, 1}, {1, 1}}, {}).empty());
  // Nobody is known to lead, or one that is down.
  EXPECT_TRUE(PlanBalance({{0, 0}, {1, 0}, {2, 9}}, {1, 2}).empty());
}

}  // namespace
}  // namespace topicdb::replication
