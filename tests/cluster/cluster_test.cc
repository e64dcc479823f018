// Three sites are killed and stopped while a client appends. Nothing that was acknowledged may be
// lost, nothing may be there twice, and all replicas must have the same in the end.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "cluster/site_process.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

using std::chrono::milliseconds;

// Returns how often something happens: TOPICDB_CLUSTER_ROUNDS for the long suite.
int Rounds(int usual) {
  const char* const set = std::getenv("TOPICDB_CLUSTER_ROUNDS");
  return set == nullptr ? usual : std::atoi(set);
}

// Elections come late enough for a machine that is busy with other tests.
milliseconds Election() {
  const char* const set = std::getenv("TOPICDB_CLUSTER_ELECTION_MS");
  return milliseconds(set == nullptr ? 1'000 : std::atoi(set));
}

class ClusterTest : public testing::Test {
 protected:
  ClusterTest() { cluster_.StartAll(); }
  ~ClusterTest() override {
    RecordProperty("acknowledged", std::to_string(cluster_.acknowledged()));
    RecordProperty("unknown", std::to_string(cluster_.unknown()));
  }
  // Appends until this many more commits are acknowledged.
  void AppendCommits(int commits) {
    while (commits > 0 && !HasFailure()) commits -= cluster_.Append(7) ? 1 : 0;
  }

  const TestDirectory directory_;
  Cluster cluster_{directory_ / "", Election()};
};

TEST_F(ClusterTest, AllReplicasHaveWhatWasAppended) {
  AppendCommits(20);
  EXPECT_EQ(cluster_.unknown(), 0U);
  // Half a megabyte of messages: several entries of the log.
  while (cluster_.acknowledged() < 60'000 && !HasFailure()) cluster_.Append(20'000);
  cluster_.Leader().Tell("seal");
  AppendCommits(20);
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, TheLeaderIsKilledAgainAndAgain) {
  for (int round = 0; round < Rounds(10) && !HasFailure(); ++round) {
    AppendCommits(5);
    SiteProcess& leader = cluster_.Leader();
    if (round % 2 == 0) leader.Tell("seal");
    leader.Kill();
    AppendCommits(3);
    cluster_.StartAll();
  }
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, AllAreKilledTogether) {
  for (int round = 0; round < Rounds(3) && !HasFailure(); ++round) {
    AppendCommits(10);
    for (SiteProcess* site : cluster_.sites()) site->Kill();
    cluster_.StartAll();
  }
  AppendCommits(1);
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, ALeaderThatIsStoppedIsReplacedAndFollowsAfterwards) {
  for (int round = 0; round < Rounds(2) && !HasFailure(); ++round) {
    AppendCommits(5);
    SiteProcess& leader = cluster_.Leader();
    const std::uint64_t before = leader.State()->term;
    leader.Stop();
    SiteProcess& next = cluster_.Leader();
    EXPECT_NE(next.replica(), leader.replica());
    EXPECT_GT(next.State()->term, before);
    // The client asks the stopped site, too, and gets no answer.
    AppendCommits(1);
    leader.Continue();
    AppendCommits(5);
  }
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, AFollowerThatIsStoppedCatchesUp) {
  AppendCommits(5);
  SiteProcess& leader = cluster_.Leader();
  SiteProcess& follower = cluster_.site(leader.replica() % 3);
  follower.Stop();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(leader.Ask("append " + std::to_string(1'000'000 + i) + " 1"), "ok");
  follower.Continue();
  cluster_.AwaitEqual();
}

TEST_F(ClusterTest, WithoutAMajorityNothingIsAcknowledged) {
  AppendCommits(5);
  SiteProcess& leader = cluster_.Leader();
  for (SiteProcess* site : cluster_.sites()) {
    if (site != &leader) site->Kill();
  }
  const std::string answer = leader.Ask("append 1000000 1").value_or("");
  EXPECT_TRUE(answer.starts_with("unknown") || answer.starts_with("refused")) << answer;
  // A leader that hears from nobody leads no more.
  std::string later;
  do {
    later = leader.Ask("append 1000001 1").value_or("");
  } while (later.starts_with("unknown"));
  EXPECT_TRUE(later.starts_with("refused")) << later;
  cluster_.StartAll();
  AppendCommits(5);
}

}  // namespace
}  // namespace topicdb::replication
