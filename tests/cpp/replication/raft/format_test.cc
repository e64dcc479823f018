// Tests of clusters whose sites have different versions of TopicDB, in one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "replication/cluster/sites.h"
#include "replication/state/cluster_state.h"
#include "topicdb/database/site.h"

namespace topicdb::replication {
namespace {

using Values = std::vector<std::string>;

class FormatTest : public SiteTest {
 protected:
  Site& SiteOf(const std::string& name) { return *here_.at(name).site; }
  // Has a site end, and start with another version.
  void RestartWith(const std::string& name, std::uint32_t newest_format) {
    here_.at(name).database.reset();
    here_.at(name).site.reset();
    newest_format_ = newest_format;
    Start(name);
    OpenAt({name});
  }
  static void ExpectTooOld(const Status& status) {
    EXPECT_EQ(status.code(), Code::kSchema) << status.message();
    EXPECT_NE(status.message().find("upgrade TopicDB on this site"), std::string::npos)
        << status.message();
  }
};

// Appends at one site after the other, while that site is up.
class Writer {
 public:
  // `append` appends a value at a site.
  explicit Writer(std::function<void(const std::string&, const std::string&)> append)
      : append_(std::move(append)), thread_([this](const std::stop_token& ends) {
          for (int i = 0; !ends.stop_requested(); ++i) {
            const std::lock_guard lock(mutex_);
            append_(at_, std::to_string(i));
            values_.push_back(std::to_string(i));
          }
        }) {}
  // Once this returns, only this site must be up.
  void MoveTo(const std::string& site) {
    const std::lock_guard lock(mutex_);
    at_ = site;
  }
  Values Stop() {
    thread_.request_stop();
    thread_.join();
    return values_;
  }

 private:
  const std::function<void(const std::string&, const std::string&)> append_;
  std::mutex mutex_;
  std::string at_ = "a";
  Values values_;
  std::jthread thread_;
};

TEST_F(FormatTest, SitesAreUpgradedOneByOne) {
  open_.schema.shards = 2;
  newest_format_ = 1;
  StartAll();
  EXPECT_EQ(SiteOf("a").format(), 1U);
  EXPECT_EQ(SiteOf("a").Upgrade(kLong).value(), 1U) << "nobody can work with more";
  Writer writer([this](const std::string& site, const std::string& value) {
    const std::string topic = "t/" + value;
    const std::vector<MessageView> messages{{topic, 1, value}};
    const auto receipt = At(site).Append(messages);
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
  });
  RestartWith("c", 2);
  const Status early = SiteOf("c").Upgrade(kLong).status();
  EXPECT_EQ(early.code(), Code::kCluster);
  EXPECT_NE(early.message().find("site 'a', site 'b' can work with format 1 at most"),
            std::string::npos)
      << early.message();
  RestartWith("b", 2);
  writer.MoveTo("b");
  EXPECT_EQ(SiteOf("a").Upgrade(kLong).status().code(), Code::kCluster) << "a is the old one";
  RestartWith("a", 2);
  EXPECT_EQ(SiteOf("a").format(), 1U) << "nobody has asked for more";
  EXPECT_EQ(SiteOf("b").Upgrade(kLong).value(), 2U);
  EXPECT_EQ(SiteOf("c").Upgrade(kLong).value(), 2U);
  for (const char* name : {"a", "b", "c"}) {
    AwaitState(name, [](const ClusterState& state) { return state.format == 2; });
  }
  writer.MoveTo("c");
  Values values = writer.Stop();
  EXPECT_FALSE(values.empty());
  std::sort(values.begin(), values.end());
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(At(name).AwaitAcknowledged(kLong).ok());
    Values seen = TakeAll(At(name), "#");
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, values) << name;
  }
  RestartWith("a", 2);
  EXPECT_EQ(SiteOf("a").format(), 2U);
}

TEST_F(FormatTest, ANewClusterBeginsWithTheNewestFormat) {
  StartAll();
  EXPECT_EQ(SiteOf("a").format(), kClusterFormatNewest);
  EXPECT_EQ(SiteOf("b").Upgrade(kLong).value(), kClusterFormatNewest);
}

TEST_F(FormatTest, ASiteThatDoesNotAnswerIsInTheWay) {
  newest_format_ = 1;
  StartAll();
  RestartWith("a", 2);
  RestartWith("b", 2);
  Stop("c");
  const Status refused = SiteOf("a").Upgrade(kLong).status();
  EXPECT_EQ(refused.code(), Code::kCluster);
  EXPECT_NE(refused.message().find("site 'c' does not answer"), std::string::npos)
      << refused.message();
  EXPECT_EQ(SiteOf("a").format(), 1U);
}

TEST_F(FormatTest, ASiteThatIsTooOldDoesNotStart) {
  StartAll();
  here_.at("c").database.reset();
  here_.at("c").site.reset();
  SiteOptions options = OptionsOf("c");
  options.newest_format = 1;
  ExpectTooOld(Site::Start(options).status());
  Start("c");
  OpenAt({"c"});
  EXPECT_EQ(ReadAt("c", AppendAt("a", "1")), (Values{"1"}));
}

// It knows of the cluster only what the others tell.
TEST_F(FormatTest, ASiteThatIsTooOldDoesNotTakePart) {
  Start("a");
  Start("b");
  OpenAt({"a", "b"});
  newest_format_ = 1;
  Start("c");
  ExpectTooOld(SiteOf("c").OpenDatabase(open_, kLong).status());
  Await([&] { return !SiteOf("c").Standing().ok(); });
  ExpectTooOld(SiteOf("c").Standing());
  ExpectTooOld(SiteOf("c").OpenDatabase(open_, kLong).status());
  EXPECT_EQ(ReadAt("b", AppendAt("a", "1")), (Values{"1"}));
}

TEST_F(FormatTest, ASiteThatIsTooOldDoesNotJoin) {
  StartAll();
  SiteOptions options = JoiningOptionsOf("d");
  options.newest_format = 1;
  const Status refused = Site::Start(options).status();
  EXPECT_EQ(refused.code(), Code::kCluster) << refused.message();
  EXPECT_NE(refused.message().find("site 'd' can work with format 1 at most"), std::string::npos)
      << refused.message();
  EXPECT_EQ(SiteOf("a").state().FindSite("d"), nullptr);
  JoinAs("d");
  EXPECT_EQ(ReadAt("d", AppendAt("a", "1")), (Values{"1"}));
}

TEST_F(FormatTest, ANewSiteJoinsOldOnes) {
  newest_format_ = 1;
  StartAll();
  newest_format_ = 2;
  JoinAs("d");
  EXPECT_EQ(ReadAt("d", AppendAt("a", "1")), (Values{"1"}));
  EXPECT_EQ(SiteOf("d").format(), 1U);
  EXPECT_EQ(SiteOf("d").Upgrade(kLong).status().code(), Code::kCluster);
}

// A site that has joined and was down meanwhile, and whose TopicDB is an older one by now.
TEST_F(FormatTest, ASiteThatHasJoinedIsTooOldForWhatItIsTold) {
  newest_format_ = 1;
  StartAll();
  const SiteOptions options = JoiningOptionsOf("d");
  here_["d"].site = Site::Start(options).value();
  OpenAt({"d"});
  AwaitState("a", [](const ClusterState& state) {
    const ClusterSite* const site = state.FindSite("d");
    return site != nullptr && site->state == SiteState::kMember;
  });
  for (const char* name : {"a", "b", "c"}) RestartWith(name, 2);
  Stop("d");
  SiteOptions again = options;
  again.join = JoiningOptionsOf("d").join;  // where the others are by now
  again.newest_format = 2;
  here_["d"].site = Site::Start(again).value();  // before its database is open
  EXPECT_EQ(SiteOf("a").Upgrade(kLong).value(), 2U);
  AwaitState("a", [](const ClusterState& state) { return state.format == 2; });
  here_.at("d").site.reset();
  again.newest_format = 1;
  ExpectTooOld(Site::Start(again).status());
}

}  // namespace
}  // namespace topicdb::replication
