#include "replication/replica/reign_starter.h"

#include <gtest/gtest.h>

#include <memory>

#include "replication/entry.h"
#include "replication/raft/raft_alone.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

constexpr std::chrono::milliseconds kPatience(60'000);

class ReignStarterTest : public testing::Test {
 protected:
  ReignStarterTest() {
    EXPECT_TRUE(site_->Join(kGroup, {kReplica}, 0, &client_).ok());
    leads_.role = RaftRole::kLeader;
    leads_.term = client_.AwaitLeading();
    leads_.leader = kReplica;
    starter_ = std::make_unique<ReignStarter>(site_.get(), kGroup, kPatience);
    starter_->Start();
  }
  // Waits for the first `count` entries with bytes, and returns how many of them begin a reign.
  std::size_t ReignsAmong(std::size_t count) {
    std::uint64_t index = 0;
    for (;;) {
      std::size_t found = 0;
      std::size_t reigns = 0;
      for (const KeptEntry& entry : client_.AwaitEntry(++index)) {
        if (entry.bytes.empty()) continue;
        ++found;
        const auto decoded = DecodeEntry(entry.bytes.view());
        reigns += decoded.ok() && decoded->kind == EntryKind::kLead ? 1 : 0;
      }
      if (found >= count) return reigns;
    }
  }

  const TestDirectory directory_;
  KeepingClient client_;
  std::unique_ptr<RaftSite> site_ = RaftSite::Open(AloneAt(directory_ / "log")).value();
  RaftPosition leads_;
  std::unique_ptr<ReignStarter> starter_;
};

TEST_F(ReignStarterTest, AReignBeginsWithAnEntryOncePerTerm) {
  starter_->Tell(RaftPosition{}, ReignStarter::Fitness::kFollows);  // it does not lead
  starter_->Tell(leads_, ReignStarter::Fitness::kFollows);
  EXPECT_EQ(ReignsAmong(1), 1U);
  starter_->Tell(leads_, ReignStarter::Fitness::kFollows);
  Entry other;
  other.kind = EntryKind::kBatch;
  ASSERT_TRUE(site_->Propose(kGroup, {Encode(other)}, kPatience).ok());
  EXPECT_EQ(ReignsAmong(2), 1U);
}

TEST_F(ReignStarterTest, AReignThatHasEndedBeginsAgainInTheSameTerm) {
  starter_->Tell(leads_, ReignStarter::Fitness::kFollows);
  EXPECT_EQ(ReignsAmong(1), 1U);
  starter_->Tell(leads_, ReignStarter::Fitness::kReigns);
  starter_->Tell(leads_, ReignStarter::Fitness::kFollows);
  EXPECT_EQ(ReignsAmong(2), 2U);
}

TEST_F(ReignStarterTest, AReplicaThatMustNotReignBeginsOnceItMay) {
  starter_->Tell(leads_, ReignStarter::Fitness::kMustNotReign);
  EXPECT_FALSE(starter_->LetAnotherLead()) << "no other one votes";
  Entry other;
  other.kind = EntryKind::kBatch;
  ASSERT_TRUE(site_->Propose(kGroup, {Encode(other)}, kPatience).ok());
  EXPECT_EQ(ReignsAmong(1), 0U);
  starter_->Tell(leads_, ReignStarter::Fitness::kFollows);
  EXPECT_EQ(ReignsAmong(2), 1U);
}

}  // namespace
}  // namespace topicdb::replication
