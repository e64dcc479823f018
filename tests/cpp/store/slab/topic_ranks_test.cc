#include "store/slab/topic_ranks.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(TopicRanks, TheLastOfEachTopicByTimeAndThenByCommit) {
  TopicRanks ranks(2, /*overwrites=*/false);
  EXPECT_TRUE(ranks.empty());
  ranks.Add("a", {5, Serial{1}, 0});
  ranks.Add("a", {9, Serial{2}, 0});
  ranks.Add("a", {5, Serial{3}, 0});  // of two at one time, the later commit counts
  ranks.Add("a", {4, Serial{9}, 0});
  ranks.Add("b", {1, Serial{1}, 1});
  EXPECT_FALSE(ranks.empty());
  EXPECT_TRUE(ranks.IsLast("a", {9, Serial{2}, 0}));
  EXPECT_TRUE(ranks.IsLast("a", {5, Serial{3}, 0}));
  EXPECT_FALSE(ranks.IsLast("a", {5, Serial{1}, 0}));
  EXPECT_FALSE(ranks.IsLast("a", {4, Serial{9}, 0}));
  EXPECT_TRUE(ranks.IsLast("b", {1, Serial{1}, 1}));
  EXPECT_FALSE(ranks.IsLast("c", {1, Serial{1}, 1}));
}

TEST(TopicRanks, WithinACommitTheIndexDecides) {
  TopicRanks ranks(1, /*overwrites=*/false);
  ranks.Add("a", {5, Serial{1}, 7});
  ranks.Add("a", {5, Serial{1}, 3});
  EXPECT_TRUE(ranks.IsLast("a", {5, Serial{1}, 7}));
  EXPECT_FALSE(ranks.IsLast("a", {5, Serial{1}, 3}));
}

TEST(TopicRanks, WhatIsReplacedDoesNotCount) {
  TopicRanks ranks(2, /*overwrites=*/true);
  ranks.Add("a", {1, Serial{1}, 0});
  ranks.Add("a", {2, Serial{2}, 0});
  ranks.Add("a", {2, Serial{3}, 0});
  ranks.Add("a", {2, Serial{1}, 9});
  EXPECT_TRUE(ranks.IsLast("a", {1, Serial{1}, 0}));
  EXPECT_TRUE(ranks.IsLast("a", {2, Serial{3}, 0}));
  EXPECT_FALSE(ranks.IsLast("a", {2, Serial{2}, 0}));
  EXPECT_FALSE(ranks.IsLast("a", {2, Serial{1}, 9}));
}

}  // namespace
}  // namespace topicdb
