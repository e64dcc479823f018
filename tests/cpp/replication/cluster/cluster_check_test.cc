// Tests of comparisons of the replicas of three sites.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "replication/cluster/sites.h"
#include "replication/replica/site_shards.h"

namespace topicdb::replication {
namespace {

class ClusterCheckTest : public SiteTest {
 protected:
  using Found = std::map<std::pair<std::uint32_t, std::string>, ReplicaVerification>;

  Found VerifyAt(const std::string& name) {
    Found found;
    const auto verified = here_.at(name).site->Verify(kLong);
    EXPECT_TRUE(verified.ok()) << verified.status().message();
    if (!verified.ok()) return found;
    for (const ReplicaVerification& one : *verified) found[{one.shard, one.site}] = one;
    return found;
  }
  // Changes what a replica has behind its back, as a fault of the disk does that no checksum tells.
  void PutAt(const std::string& name, std::uint32_t shard, const std::string& key) {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    const auto replica = here_.at(name).site->shards()->Find(shard)->shard();
    EXPECT_TRUE(replica->view()->db()->Put(options, key, "wrong").ok());
  }
};

TEST_F(ClusterCheckTest, ReplicasThatHaveAppliedTheSameHaveTheSame) {
  open_.schema.shards = 2;
  StartAll();
  for (int i = 0; i < 20; ++i) Append(std::to_string(i));
  EXPECT_TRUE(At("a").Flush().ok());
  for (const char* name : {"a", "b"}) {  // any site may be asked, and again
    const Found found = VerifyAt(name);
    EXPECT_EQ(found.size(), 6U);
    for (const auto& [place, one] : found) {
      EXPECT_EQ(one.outcome, ReplicaOutcome::kSame) << one.site << ": " << one.why;
    }
  }
}

TEST_F(ClusterCheckTest, TheReplicaThatDiffersIsNamed) {
  open_.schema.shards = 2;
  StartAll();
  Append("1");
  PutAt("b", 1, "a key");
  Found found = VerifyAt("a");
  EXPECT_EQ((found[{1, "b"}].outcome), ReplicaOutcome::kDiffers);
  EXPECT_EQ((found[{1, "b"}].parts), (std::vector<std::string>{"the records of the shard"}));
  for (const auto& [place, one] : found) {
    if (place == std::pair<std::uint32_t, std::string>(1, "b")) continue;
    EXPECT_EQ(one.outcome, ReplicaOutcome::kSame) << one.site << ": " << one.why;
  }
}

// What is written while the sites read is not in the comparison, at any of them.
TEST_F(ClusterCheckTest, AppendsGoOnMeanwhile) {
  StartAll();
  std::atomic<bool> stops = false;
  std::thread appends([&] {
    for (int i = 0; !stops; ++i) AppendAt("a", std::to_string(i));
  });
  for (int round = 0; round < 3; ++round) {
    for (const auto& [place, one] : VerifyAt("c")) {
      EXPECT_EQ(one.outcome, ReplicaOutcome::kSame) << one.site << ": " << one.why;
    }
  }
  stops = true;
  appends.join();
}

TEST_F(ClusterCheckTest, ASiteThatIsDownIsNotCompared) {
  StartAll();
  Append("1");
  Stop("c");
  Found found = VerifyAt("a");
  EXPECT_EQ((found[{0, "a"}].outcome), ReplicaOutcome::kSame);
  EXPECT_EQ((found[{0, "b"}].outcome), ReplicaOutcome::kSame);
  EXPECT_EQ((found[{0, "c"}].outcome), ReplicaOutcome::kNotCompared);
  EXPECT_NE((found[{0, "c"}].why.find("does not answer")), std::string::npos)
      << (found[{0, "c"}].why);
  PutAt("b", 0, "a key");
  found = VerifyAt("a");  // of two, nobody knows which is right
  EXPECT_EQ((found[{0, "a"}].outcome), ReplicaOutcome::kDiffers);
  EXPECT_EQ((found[{0, "b"}].outcome), ReplicaOutcome::kDiffers);
}

TEST_F(ClusterCheckTest, WithoutAMajorityNothingIsCompared) {
  StartAll();
  Stop("b");
  Stop("c");
  const auto verified = here_.at("a").site->Verify(milliseconds(1'000));
  ASSERT_TRUE(verified.ok());
  for (const ReplicaVerification& one : *verified) {
    EXPECT_EQ(one.outcome, ReplicaOutcome::kNotCompared) << one.site;
    EXPECT_FALSE(one.why.empty());
  }
}

TEST_F(ClusterCheckTest, NothingIsComparedWhileAnEarlierFormatIsInForce) {
  newest_format_ = 1;
  StartAll();
  const Status verified = here_.at("a").site->Verify(kLong).status();
  EXPECT_EQ(verified.code(), Code::kCluster);
  EXPECT_NE(verified.message().find("topicdb cluster upgrade"), std::string::npos)
      << verified.message();
}

TEST_F(ClusterCheckTest, ItEndsWhenTheCallerAsks) {
  StartAll();
  const auto verified = here_.at("a").site->Verify(kLong, [] { return true; });
  EXPECT_EQ(verified.status().code(), Code::kInterrupted);
}

}  // namespace
}  // namespace topicdb::replication
