// Tests of a site that goes on when a majority of its cluster is lost for good.
#include "replication/cluster/lost_majority.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file/files.h"
#include "replication/cluster/sites.h"
#include "replication/replicas.h"

namespace topicdb::replication {
namespace {

class LostMajorityTest : public SiteTest {
 protected:
  // Starts three sites, appends at each, and stops them. All have all messages then.
  void Fill() {
    open_.schema.shards = 2;
    StartAll();
    for (const char* name : {"a", "b", "c"}) values_.push_back(name);
    for (const std::string& value : values_) {
      const Receipt receipt = AppendAt(value, value);
      for (const char* name : {"a", "b", "c"}) ReadAt(name, receipt);
    }
    for (const char* name : {"a", "b", "c"}) Stop(name);
  }
  Status ForgetOthersAt(const std::string& name) {
    SiteOptions options;
    options.path = directory_ / name;
    return Site::ForgetOthers(options);
  }
  void StartAlone(const std::string& name) {
    Start(name);
    OpenAt({name});
  }

  std::vector<std::string> values_;
};

TEST_F(LostMajorityTest, OneSiteGoesOnWithAllThatItHas) {
  Fill();
  const StoredSite stored = Site::Load(directory_ / "a").value();
  EXPECT_EQ(stored.name, "a");
  EXPECT_EQ(stored.sites.size(), 3U);
  ASSERT_TRUE(ForgetOthersAt("a").ok());
  ASSERT_TRUE(ForgetOthersAt("a").ok()) << "it may be repeated";
  EXPECT_EQ(Site::Load(directory_ / "a").value().sites.size(), 1U);
  StartAlone("a");
  EXPECT_EQ(here_.at("a").site->state().Names(), "a");
  values_.emplace_back("alone");
  EXPECT_EQ(ReadAt("a", AppendAt("a", "alone")), values_);
}

TEST_F(LostMajorityTest, OthersJoinIt) {
  Fill();
  ASSERT_TRUE(ForgetOthersAt("b").ok());
  StartAlone("b");
  JoinAs("d");
  values_.emplace_back("more");
  EXPECT_EQ(ReadAt("d", AppendAt("d", "more")), values_);
  AwaitState("b", [](const ClusterState& state) {
    return state.sites.size() == 2 && state.sites[1].state == SiteState::kMember;
  });
}

// They are a majority of the cluster that they know.
TEST_F(LostMajorityTest, SitesThatComeBackChangeNothing) {
  Fill();
  ASSERT_TRUE(ForgetOthersAt("a").ok());
  Start("a");
  Start("b");
  Start("c");
  OpenAt({"a", "b", "c"});
  AppendAt("b", "elsewhere");
  for (const char* name : {"b", "c", "b"}) {  // their terms rise
    EXPECT_TRUE(here_.at("b").site->StepDown(name).ok());
  }
  AppendAt("c", "later");
  values_.emplace_back("here");
  EXPECT_EQ(ReadAt("a", AppendAt("a", "here")), values_);
  EXPECT_EQ(here_.at("a").site->state().Names(), "a");
}

TEST_F(LostMajorityTest, ASiteThatIsUpIsInTheWay) {
  Fill();
  for (const char* name : {"a", "b", "c"}) Start(name);
  OpenAt({"a", "b", "c"});
  JoinAs("d");
  for (const char* name : {"a", "b", "c"}) Stop(name);
  const Status refused = ForgetOthersAt("a");
  EXPECT_EQ(refused.code(), Code::kCluster);
  EXPECT_NE(refused.message().find("site 'd' is up"), std::string::npos) << refused.message();
  const Status itself = ForgetOthersAt("d");
  EXPECT_EQ(itself.code(), Code::kCluster);
  EXPECT_NE(itself.message().find("stop it first"), std::string::npos) << itself.message();
  EXPECT_EQ(Site::Load(directory_ / "a").value().sites.size(), 4U) << "nothing was changed";
  for (const char* name : {"a", "b", "c"}) Start(name);
  OpenAt({"a", "b", "c"});
  values_.emplace_back("more");
  EXPECT_EQ(ReadAt("d", AppendAt("a", "more")), values_);
}

TEST_F(LostMajorityTest, OtherDirectoriesAreRefused) {
  EXPECT_EQ(ForgetOthersAt("nowhere").code(), Code::kNotFound);
  Start("a");
  Stop("a");
  const Status unfounded = ForgetOthersAt("a");
  EXPECT_EQ(unfounded.code(), Code::kCluster);
  EXPECT_NE(unfounded.message().find("knows of no cluster"), std::string::npos);
}

TEST_F(LostMajorityTest, ASiteThatHasLeftIsRefused) {
  Fill();
  for (const char* name : {"a", "b", "c"}) Start(name);
  OpenAt({"a", "b", "c"});
  ASSERT_TRUE(here_.at("a").site->Leave("c", kLong).ok());
  AwaitState("c", [](const ClusterState& state) { return state.FindSite("c") == nullptr; });
  Stop("c");
  const Status left = ForgetOthersAt("c");
  EXPECT_EQ(left.code(), Code::kCluster);
  EXPECT_NE(left.message().find("has left the cluster"), std::string::npos) << left.message();
}

}  // namespace
}  // namespace topicdb::replication
