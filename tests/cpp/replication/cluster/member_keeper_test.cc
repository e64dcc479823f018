// Tests of clusters whose sites change, in one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/file/files.h"
#include "replication/cluster/sites.h"
#include "replication/state/cluster_state.h"
#include "topicdb/database/site.h"

namespace topicdb::replication {
namespace {

using Values = std::vector<std::string>;

std::uint64_t CountLed(const Site& site) {
  const auto reports = site.Replicas();
  return static_cast<std::uint64_t>(std::count_if(
      reports.begin(), reports.end(),
      [](const ReplicaReport& report) { return report.state == ReplicaState::kLeading; }));
}

class MemberKeeperTest : public SiteTest {
 protected:
  void AwaitMember(const std::string& name) {
    AwaitState(name, [&](const ClusterState& state) {
      const ClusterSite* const site = state.FindSite(name);
      return site != nullptr && site->state == SiteState::kMember;
    });
  }
  void AwaitGone(const std::string& at, const std::string& name) {
    AwaitState(at, [&](const ClusterState& state) { return state.FindSite(name) == nullptr; });
  }
  Site& SiteOf(const std::string& name) { return *here_.at(name).site; }
};

TEST_F(MemberKeeperTest, ANewSiteGetsAllShards) {
  open_.schema.shards = 3;
  StartAll();
  for (int i = 0; i < 20; ++i) AppendAt("a", std::to_string(i));
  JoinAs("d");
  const Receipt receipt = AppendAt("d", "by d");
  const Values seen = ReadAt("d", receipt);
  EXPECT_EQ(seen.size(), 21U);
  EXPECT_EQ(ReadAt("b", receipt), seen);
  AwaitMember("d");
  EXPECT_EQ(SiteOf("d").cluster_id(), SiteOf("a").cluster_id());
  EXPECT_EQ(SiteOf("d").replica(), 4U);
}

TEST_F(MemberKeeperTest, ANewSiteCarriesTheClusterOn) {
  StartAll();
  AppendAt("a", "1");
  JoinAs("d");
  AwaitMember("d");
  // Three of four are needed, and without d there are two.
  Stop("c");
  const Receipt receipt = AppendAt("a", "2");
  EXPECT_EQ(ReadAt("d", receipt), (Values{"1", "2"}));
}

TEST_F(MemberKeeperTest, ASiteThatHasJoinedStartsAgain) {
  StartAll();
  const SiteOptions options = JoiningOptionsOf("d");
  here_["d"].site = Site::Start(options).value();
  OpenAt({"d"});
  AwaitMember("d");
  const Receipt before = AppendAt("d", "1");
  here_.at("d").database.reset();
  here_.at("d").site.reset();
  const Receipt receipt = AppendAt("a", "2");
  SiteOptions again = options;
  again.join = {"127.0.0.1:1"};  // it knows the others
  here_["d"].site = Site::Start(again).value();
  OpenAt({"d"});
  EXPECT_EQ(ReadAt("d", receipt), (Values{"1", "2"}));
  EXPECT_EQ(SiteOf("d").replica(), 4U);
  EXPECT_FALSE(before.serials.empty());
}

TEST_F(MemberKeeperTest, AllSitesStartAgainAfterOneHasJoined) {
  StartAll();
  AppendAt("a", "1");
  const SiteOptions options = JoiningOptionsOf("d");
  here_["d"].site = Site::Start(options).value();
  OpenAt({"d"});
  AwaitMember("d");
  for (auto& [name, here] : here_) here.database.reset();
  here_.clear();
  for (const char* name : {"a", "b", "c"}) Start(name);  // their options do not name d
  OpenAt({"a", "b", "c"});
  // All have other addresses now, and so has d.
  SiteOptions again = JoiningOptionsOf("d");
  here_["d"].site = Site::Start(again).value();
  OpenAt({"d"});
  const Receipt receipt = AppendAt("d", "2");
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_EQ(ReadAt(name, receipt), (Values{"1", "2"})) << name;
  }
}

TEST_F(MemberKeeperTest, ASiteLeaves) {
  open_.schema.shards = 2;
  StartAll();
  AppendAt("a", "1");
  ASSERT_TRUE(SiteOf("b").Leave("c", kLong).ok());
  AwaitGone("c", "c");
  Await([&] { return !SiteOf("c").Standing().ok(); });
  EXPECT_EQ(SiteOf("c").Standing().code(), Code::kCluster);
  const std::vector<MessageView> messages{{"t", 1, "by c"}};
  EXPECT_EQ(At("c").Append(messages).status().code(), Code::kCluster);
  Stop("c");
  // Of two sites, both are needed.
  const Receipt receipt = AppendAt("b", "2");
  EXPECT_EQ(ReadAt("a", receipt), (Values{"1", "2"}));
}

TEST_F(MemberKeeperTest, ASiteLeavesByItself) {
  StartAll();
  AppendAt("a", "1");
  ASSERT_TRUE(SiteOf("a").Leave("a", kLong).ok());
  EXPECT_EQ(ReadAt("b", AppendAt("c", "2")), (Values{"1", "2"}));
  AwaitGone("b", "a");  // b may hear of it later than a
  EXPECT_EQ(SiteOf("b").state().Names(), "b, c");
}

TEST_F(MemberKeeperTest, TheOnlySiteDoesNotLeave) {
  sites_ = {{"a", ""}};
  Start("a");
  OpenAt({"a"});
  EXPECT_EQ(SiteOf("a").Leave("a", kLong).code(), Code::kCluster);
  AppendAt("a", "1");
  JoinAs("b");
  AwaitMember("b");
  ASSERT_TRUE(SiteOf("b").Leave("a", kLong).ok());
  Stop("a");
  EXPECT_EQ(ReadAt("b", AppendAt("b", "2")), (Values{"1", "2"}));
  JoinAs("c");  // b alone agrees on the sites, too
  AwaitMember("c");
  EXPECT_EQ(ReadAt("c", AppendAt("c", "3")), (Values{"1", "2", "3"}));
}

TEST_F(MemberKeeperTest, ASiteWhoseMachineIsLostIsReplaced) {
  StartAll();
  AppendAt("a", "1");
  Stop("c");
  const std::string lost = directory_ / "c";
  ASSERT_TRUE(RemoveTree(lost).ok());
  ASSERT_TRUE(SiteOf("a").Forget("c", kLong).ok());
  JoinAs("c");
  AwaitMember("c");
  EXPECT_EQ(SiteOf("c").replica(), 4U) << "the id of the one before is not used again";
  Stop("b");
  EXPECT_EQ(ReadAt("c", AppendAt("a", "2")), (Values{"1", "2"}));
}

TEST_F(MemberKeeperTest, ASiteThatIsUpIsNotForgotten) {
  StartAll();
  const Status forgotten = SiteOf("a").Forget("c", kLong);
  EXPECT_EQ(forgotten.code(), Code::kCluster);
  EXPECT_NE(forgotten.message().find("site 'c' is up"), std::string::npos) << forgotten.message();
  EXPECT_EQ(SiteOf("a").state().Names(), "a, b, c");
  EXPECT_EQ(SiteOf("a").Forget("x", kLong).code(), Code::kCluster);
  EXPECT_EQ(SiteOf("a").Leave("x", kLong).code(), Code::kCluster);
}

TEST_F(MemberKeeperTest, ASiteThatWasForgottenHearsOfIt) {
  StartAll();
  AppendAt("a", "1");
  here_.at("c").database.reset();
  here_.at("c").site.reset();
  ASSERT_TRUE(SiteOf("a").Forget("c", kLong).ok());
  Start("c");
  Await([&] { return !SiteOf("c").Standing().ok(); });
  const Status standing = SiteOf("c").Standing();
  EXPECT_EQ(standing.code(), Code::kCluster);
  EXPECT_NE(standing.message().find("its sites are a, b"), std::string::npos) << standing.message();
  EXPECT_EQ(SiteOf("c").OpenDatabase(open_, kLong).status().code(), Code::kCluster);
}

TEST_F(MemberKeeperTest, ASiteThatHadJoinedAndWasForgottenIsTold) {
  StartAll();
  const SiteOptions options = JoiningOptionsOf("d");
  here_["d"].site = Site::Start(options).value();
  OpenAt({"d"});
  AwaitMember("d");
  Stop("d");
  ASSERT_TRUE(SiteOf("a").Forget("d", kLong).ok());
  const Status back = Site::Start(options).status();
  EXPECT_EQ(back.code(), Code::kCluster);
  EXPECT_NE(back.message().find("its sites are a, b, c"), std::string::npos) << back.message();
}

TEST_F(MemberKeeperTest, WithoutAMajorityNobodyIsForgotten) {
  StartAll();
  Stop("b");
  Stop("c");
  const Status forgotten = SiteOf("a").Forget("c", milliseconds(1'500));
  EXPECT_EQ(forgotten.code(), Code::kNotLeader) << forgotten.message();
  EXPECT_EQ(SiteOf("a").state().Names(), "a, b, c");
}

TEST_F(MemberKeeperTest, ASiteThatCannotJoinIsTold) {
  StartAll();
  SiteOptions options = JoiningOptionsOf("c");
  options.path = directory_ / "other";
  const Status taken = Site::Start(options).status();
  EXPECT_EQ(taken.code(), Code::kCluster);
  EXPECT_NE(taken.message().find("has a site 'c' already"), std::string::npos) << taken.message();
  options.name = "d";
  EXPECT_EQ(Site::Start(options).status().code(), Code::kInvalidArgument)
      << "the directory is that of c now";
  options = JoiningOptionsOf("d");
  options.join = {"127.0.0.1:" + std::to_string(FreePort())};
  options.join_patience = milliseconds(300);
  const Status alone = Site::Start(options).status();
  EXPECT_EQ(alone.code(), Code::kNotLeader);
  EXPECT_NE(alone.message().find(options.join[0]), std::string::npos) << alone.message();
  options.address = "127.0.0.1:0";
  EXPECT_EQ(Site::Start(options).status().code(), Code::kInvalidArgument);
  options.address = "127.0.0.1:1";
  options.sites = {{"d", ""}};
  EXPECT_EQ(Site::Start(options).status().code(), Code::kInvalidArgument);
}

TEST_F(MemberKeeperTest, ASiteStepsDown) {
  open_.schema.shards = 4;
  StartAll();
  const Receipt receipt = AppendAt("a", "1");
  for (const char* name : {"a", "b", "c"}) {
    const Status stepped_down = SiteOf("a").StepDown(name);
    ASSERT_TRUE(stepped_down.ok()) << stepped_down.message();
    EXPECT_EQ(CountLed(SiteOf(name)), 0U) << name;
  }
  EXPECT_EQ(ReadAt("b", receipt), (Values{"1"}));
  EXPECT_EQ(SiteOf("a").StepDown("x").code(), Code::kCluster);
}

TEST_F(MemberKeeperTest, ShardsAreSharedOut) {
  open_.schema.shards = 6;
  StartAll();
  AppendAt("a", "1");
  ASSERT_TRUE(SiteOf("a").StepDown("a").ok());
  ASSERT_TRUE(SiteOf("a").StepDown("b").ok());
  const auto count = [&] {
    std::map<std::uint64_t, int> led;
    for (const ReplicaReport& report : SiteOf("a").Replicas()) ++led[report.leader];
    return led;
  };
  const std::map<std::uint64_t, int> even{{1, 2}, {2, 2}, {3, 2}};
  Await([&] {
    if (count() == even) return true;
    const auto moved = SiteOf("b").Balance();
    EXPECT_TRUE(moved.ok() || moved.status().code() == Code::kNotLeader)
        << moved.status().message();
    return false;
  });
  EXPECT_EQ(SiteOf("c").Balance().value(), 0U);
}

// Sites come and go while a client appends: what was acknowledged is there once, at all of them.
TEST_F(MemberKeeperTest, NothingIsLostWhileSitesChange) {
  open_.schema.shards = 2;
  StartAll();
  std::vector<std::string> acknowledged;
  std::map<std::uint32_t, Serial> serials;
  std::jthread writer([&](const std::stop_token& ends) {
    for (int i = 0; !ends.stop_requested(); ++i) {
      const std::string value = std::to_string(i);
      const std::string topic = "t/" + value;
      const std::vector<MessageView> messages{{topic, 1, value}};
      const auto receipt = At("a").Append(messages);
      ASSERT_TRUE(receipt.ok()) << receipt.status().message();
      acknowledged.push_back(value);
      for (const auto& [shard, serial] : receipt->serials) serials[shard] = serial;
    }
  });
  JoinAs("d");
  AwaitMember("d");
  EXPECT_TRUE(SiteOf("d").Leave("c", kLong).ok());
  Stop("c");
  JoinAs("e");
  AwaitMember("e");
  EXPECT_TRUE(SiteOf("a").Leave("b", kLong).ok());
  Stop("b");
  writer.request_stop();
  writer.join();
  std::sort(acknowledged.begin(), acknowledged.end());
  for (const char* name : {"a", "d", "e"}) {
    Receipt last;
    last.serials.assign(serials.begin(), serials.end());
    Values seen = ReadAt(name, last);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, acknowledged) << name;
  }
  EXPECT_GT(acknowledged.size(), 10U);
}

}  // namespace
}  // namespace topicdb::replication
