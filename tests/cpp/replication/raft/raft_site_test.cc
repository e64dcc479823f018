// Tests of the barrier for reads, by which sites see what was acknowledged at any of three.
#include "replication/raft/raft_site.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "replication/cluster/sites.h"

namespace topicdb::replication {
namespace {

constexpr const char* kSites[] = {"a", "b", "c"};

class ReadBarrierTest : public SiteTest {
 protected:
  // Reads at a site, which must see what was acknowledged.
  std::size_t CountAt(const std::string& name) {
    const Status came = At(name).AwaitAcknowledged(kLong);
    EXPECT_TRUE(came.ok()) << name << ": " << came.message();
    return TakeAll(At(name), "#").size();
  }
};

TEST_F(ReadBarrierTest, EverySiteSeesWhatEveryOtherSiteHasAcknowledged) {
  open_.schema.shards = 3;
  StartAll();
  std::size_t count = 0;
  for (int i = 0; i < 90; ++i) {
    const std::string number = std::to_string(i);
    const std::string topic = "t/" + number;
    ASSERT_TRUE(At(kSites[i % 3]).Append(std::vector<MessageView>{{topic, 1, "v"}}).ok());
    ++count;
    EXPECT_EQ(CountAt(kSites[(i / 3) % 3]), count) << topic;
  }
}

TEST_F(ReadBarrierTest, SitesThatReadBesideWritersNeverGoBack) {
  StartAll();
  std::atomic<std::size_t> acknowledged = 0;
  std::vector<std::thread> threads;
  for (const char* name : kSites) {
    threads.emplace_back([&, name] {
      for (int i = 0; i < 30; ++i) {
        AppendAt(name, std::to_string(i));
        ++acknowledged;
        const std::size_t before = acknowledged;
        EXPECT_GE(CountAt(name), before) << name;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ReadBarrierTest, ASiteAloneCannotTell) {
  StartAll();
  Append("1");
  for (const char* name : {"b", "c"}) {
    here_.at(name).database.reset();
    here_.at(name).site.reset();
  }
  const Status alone = At("a").AwaitAcknowledged(milliseconds(200));
  EXPECT_EQ(alone.code(), Code::kNotLeader) << alone.message();
  EXPECT_NE(alone.message().find("no majority of the replicas has answered a read within 2"),
            std::string::npos)
      << alone.message();
  EXPECT_EQ(TakeAll(At("a"), "#"), std::vector<std::string>{"1"});
  Start("b");
  OpenAt({"b"});
  EXPECT_EQ(CountAt("a"), 1U);
}

}  // namespace
}  // namespace topicdb::replication
