// Tests of retention classes that three sites agree on.
#include "replication/cluster/cluster_rules.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "replication/cluster/sites.h"
#include "replication/replica/site_shards.h"

namespace topicdb::replication {
namespace {

using namespace std::chrono_literals;

// How many messages each class has that has any.
using Classes = std::map<std::string, std::uint64_t>;

class ClusterRulesTest : public SiteTest {
 protected:
  ClusterRulesTest() { open_.schema.shards = 2; }

  Status SetAt(const std::string& name, const std::vector<RetentionClass>& classes) {
    return At(name).upkeep().SetRetention(classes, /*dry_run=*/false).status();
  }
  // Appends messages of these topics at one site.
  Receipt AppendTo(const std::string& name, const std::vector<std::string>& topics) {
    std::vector<MessageView> messages;
    for (const std::string& topic : topics) messages.push_back({topic, 1, "value"});
    const auto receipt = At(name).Append(messages);
    EXPECT_TRUE(receipt.ok()) << receipt.status().message();
    return receipt.ok() ? *receipt : Receipt();
  }
  Classes ClassesAt(const std::string& name, const Receipt& receipt) {
    ReadAt(name, receipt);
    Classes found;
    const auto slabs = At(name).upkeep().Slabs();
    for (const SlabInfo& slab : *slabs) {
      if (slab.messages > 0) found[slab.retention_class] += slab.messages;
    }
    return found;
  }
  std::vector<RetentionClass> RulesAt(const std::string& name) {
    return At(name).upkeep().Retention().value();
  }
  void Stop(const std::string& name) {
    here_.at(name).database.reset();
    here_.at(name).site.reset();
  }
  // Waits until the file `retention` of a site says this.
  void AwaitFile(const std::string& name, const std::vector<RetentionClass>& classes) {
    for (;;) {
      const auto stored = LoadRetention(directory_ / name, {});
      ASSERT_TRUE(stored.ok()) << stored.status().message();
      if (AreSameClasses(stored->classes(), classes)) return;
      std::this_thread::yield();
    }
  }

  const std::vector<RetentionClass> hour_{{"a/#", 1h}, {"#"}};
  const std::vector<RetentionClass> day_{{"b/#", 24h}, {"#"}};
};

TEST_F(ClusterRulesTest, ClassesThatOneSiteSetsHoldAtAll) {
  StartAll();
  AppendTo("a", {"a/1", "a/2", "b/1"});
  const Status set = SetAt("b", hour_);
  ASSERT_TRUE(set.ok()) << set.message();
  const Receipt receipt = AppendTo("c", {"a/1", "a/2", "b/1"});
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(ClassesAt(name, receipt), (Classes{{"#", 4}, {"a/#", 2}})) << name;
    EXPECT_TRUE(AreSameClasses(RulesAt(name), hour_)) << name;
    AwaitFile(name, hour_);
  }
}

TEST_F(ClusterRulesTest, ADryRunAndClassesThatCannotBeChangeNothing) {
  StartAll();
  const ClusterState before = here_.at("a").site->state();
  EXPECT_TRUE(At("a").upkeep().SetRetention(hour_, /*dry_run=*/true).ok());
  EXPECT_EQ(SetAt("a", {{"a/#"}, {"a/#"}}).code(), Code::kSchema);
  EXPECT_EQ(here_.at("a").site->state().retention, before.retention);
  EXPECT_EQ(RulesAt("a").size(), 0U);
}

// At most one of them leads both shards. Those that another one leads take the classes there.
TEST_F(ClusterRulesTest, EachSiteSetsThemForAllShards) {
  StartAll();
  for (const char* name : {"a", "b", "c"}) {
    const Status set = SetAt(name, {{std::string(name) + "/#", 1h}});
    ASSERT_TRUE(set.ok()) << set.message();
    for (const auto& [index, replica] : here_.at(name).site->shards()->All()) {
      EXPECT_GT(replica->shard()->rules_version(), 0U) << "shard " << index;
    }
    const std::string topic = std::string(name) + "/1";
    const Receipt receipt = AppendTo(name, {topic, topic + "/2", topic + "/3"});
    EXPECT_EQ(ClassesAt(name, receipt)[std::string(name) + "/#"], 3U);
  }
}

// Whoever sets them last decides, as in one process.
TEST_F(ClusterRulesTest, SitesThatSetThemAtTheSameTimeAgree) {
  StartAll();
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> threads;
    for (const char* name : {"a", "b", "c"}) {
      threads.emplace_back([this, name] {
        const Status set = SetAt(name, *name == 'b' ? day_ : hour_);
        EXPECT_TRUE(set.ok()) << set.message();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const Receipt receipt = AppendTo("a", {"a/1", "a/2", "b/1", "b/2", "c/1", "c/2"});
  const Classes found = ClassesAt("a", receipt);
  for (const char* name : {"b", "c"}) {
    EXPECT_EQ(ClassesAt(name, receipt), found) << name;
    EXPECT_TRUE(AreSameClasses(RulesAt(name), RulesAt("a"))) << name;
  }
  const auto rules = DecodeRetention(here_.at("a").site->state().retention, "the state");
  EXPECT_EQ(rules->version(), 15U) << "each has changed them once";
}

TEST_F(ClusterRulesTest, ASiteThatWasAwayHasThemWhenItIsBack) {
  StartAll();
  AppendTo("a", {"a/1", "b/1"});
  Stop("c");
  const Status set = SetAt("a", hour_);
  ASSERT_TRUE(set.ok()) << set.message();
  AppendTo("b", {"a/1", "b/1"});
  const Status again = SetAt("b", {{"a/#", 2h}, {"b/#", 2h}});
  ASSERT_TRUE(again.ok()) << again.message();
  const Receipt receipt = AppendTo("a", {"a/1", "b/1"});
  Start("c");
  OpenAt({"c"});
  const Classes found = ClassesAt("a", receipt);
  EXPECT_EQ(found, (Classes{{"#", 3}, {"a/#", 2}, {"b/#", 1}}));
  EXPECT_EQ(ClassesAt("c", receipt), found);
  EXPECT_EQ(SetAt("c", day_).code(), Code::kOk);
  EXPECT_EQ(ClassesAt("b", AppendTo("b", {"b/2"})), (Classes{{"#", 3}, {"a/#", 2}, {"b/#", 2}}));
}

// Others come to lead, and go on by the rules that hold.
TEST_F(ClusterRulesTest, TheyHoldWhoeverLeads) {
  StartAll();
  ASSERT_TRUE(SetAt("a", hour_).ok());
  std::uint64_t stored = 0;
  for (const char* name : {"a", "b", "c"}) {
    Stop(name);
    const std::string other = *name == 'a' ? "b" : "a";
    const Receipt receipt = AppendTo(other, {"a/1", "a/2", "b/1"});
    ++stored;
    EXPECT_EQ(ClassesAt(other, receipt), (Classes{{"#", stored}, {"a/#", 2 * stored}}));
    Start(name);
    OpenAt({name});
    EXPECT_EQ(ClassesAt(name, receipt), (Classes{{"#", stored}, {"a/#", 2 * stored}})) << name;
  }
}

TEST_F(ClusterRulesTest, WithoutAMajorityNothingIsChanged) {
  patience_ = milliseconds(1'500);
  StartAll();
  AppendTo("a", {"a/1"});
  Stop("b");
  Stop("c");
  const Status set = SetAt("a", hour_);
  // The site may have led before it noticed that it is alone.
  EXPECT_TRUE(set.code() == Code::kNotLeader || set.code() == Code::kUnknownOutcome)
      << set.message();
  EXPECT_EQ(RulesAt("a").size(), 0U);
}

}  // namespace
}  // namespace topicdb::replication
