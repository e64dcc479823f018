// Tests of one replica alone. tests/cluster has those of several, which are killed.
#include "replication/replica/replica.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "replication/raft/raft_alone.h"
#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

constexpr std::chrono::milliseconds kPatience(60'000);

class ReplicaTest : public testing::Test {
 protected:
  ReplicaTest() {
    DatabaseParts::MakeEnvironment(path_, {});
    LoseFiles();
    OpenBoth();
  }
  void LoseFiles() {
    for (const auto& file : std::filesystem::directory_iterator(path_ + "/shards")) {
      std::filesystem::remove_all(file);
    }
  }
  void CloseBoth() {
    EXPECT_TRUE(replica_->Close().ok());
    replica_.reset();
    site_.reset();
  }
  // Appends until the log has forgotten its first entries.
  void AppendUntilCut() {
    for (int i = 0; site_->StatusOf(kGroup)->first <= 10; ++i) {
      ASSERT_TRUE(Append("t/" + std::to_string(i)).ok());
    }
  }
  void OpenBoth() {
    site_ = RaftSite::Open(AloneAt(directory_ / "log")).value();
    replica_ = OpenReplica().value();
  }
  Result<std::unique_ptr<Replica>> OpenReplica() {
    ReplicaOptions options = options_;
    options.group = kGroup;
    options.voters = {kReplica};
    return Replica::Open(site_.get(), DatabaseParts::MakeEnvironment(path_, {}), 0, options);
  }
  Status Append(const std::string& topic) {
    auto led = replica_->Lead(kPatience);
    if (!led.ok()) return led.status();
    const std::vector<MessageView> messages{{topic, 1, "value"}};
    ShardCommit commit;
    commit.messages = messages;
    (*led)->Commit(&commit);
    return commit.status;
  }
  std::uint64_t Count() {
    const auto led = replica_->Lead(kPatience).value();
    return led->Stats().messages;
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
  ReplicaOptions options_;
  std::unique_ptr<RaftSite> site_;
  std::unique_ptr<Replica> replica_;
};

TEST_F(ReplicaTest, WhatWasAppendedIsThereAfterItWasClosed) {
  for (const char* topic : {"a", "b", "c"}) EXPECT_TRUE(Append(topic).ok());
  EXPECT_EQ(replica_->state(), ReplicaState::kLeading);
  CloseBoth();
  OpenBoth();
  EXPECT_EQ(Count(), 3U);
  EXPECT_TRUE(Append("d").ok());
  EXPECT_EQ(Count(), 4U);
}

// RocksDB loses all that it had in memory only, as after a crash. The log has it.
TEST_F(ReplicaTest, WhatRocksHasLostIsAppliedAgain) {
  for (const char* topic : {"a", "b", "c"}) EXPECT_TRUE(Append(topic).ok());
  CloseBoth();
  LoseFiles();
  OpenBoth();
  EXPECT_EQ(Count(), 3U);
}

TEST_F(ReplicaTest, TheLogIsCutWhenEverythingIsInFiles) {
  CloseBoth();
  options_.flush_bytes = 1'000;
  OpenBoth();
  AppendUntilCut();
  const std::uint64_t count = Count();
  CloseBoth();
  OpenBoth();
  EXPECT_EQ(Count(), count);
}

TEST_F(ReplicaTest, TheLogIsCutAfterSomeTime) {
  CloseBoth();
  options_.flush_interval = std::chrono::milliseconds(20);
  OpenBoth();
  AppendUntilCut();
}

// The log cannot make up for files that are gone, so the replica must not pretend to have nothing.
TEST_F(ReplicaTest, AReplicaThatHasLostItsFilesIsRefused) {
  CloseBoth();
  options_.flush_bytes = 1'000;
  OpenBoth();
  AppendUntilCut();
  CloseBoth();
  LoseFiles();
  site_ = RaftSite::Open(AloneAt(directory_ / "log")).value();
  const auto opened = OpenReplica();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kCorruption);
  EXPECT_NE(opened.status().message().find("the data has applied entry"), std::string::npos)
      << opened.status().message();
}

TEST_F(ReplicaTest, AShardIsNotOpenTwice) {
  const auto second = OpenReplica();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kLocked);
}

TEST_F(ReplicaTest, WhoeverUsesTheShardKeepsItOpen) {
  auto led = replica_->Lead(kPatience).value();
  const std::vector<MessageView> messages{{"topic", 1, "value"}};
  ShardCommit commit;
  commit.messages = messages;
  led->Commit(&commit);
  EXPECT_TRUE(commit.status.ok());
  EXPECT_EQ(led->Stats().messages, 1U);
  led.reset();
  EXPECT_TRUE(replica_->Close().ok());
}

// A log that has lost what it acknowledged must not lead, or vote.
TEST_F(ReplicaTest, AReplicaWithTheLogOfAnotherOneIsRefused) {
  CloseBoth();
  RaftSiteOptions other = AloneAt(directory_ / "log");
  other.replica = kReplica + 1;
  const auto opened = RaftSite::Open(other);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kCorruption);
}

TEST_F(ReplicaTest, AShardThatCannotBeLoadedIsNotServed) {
  EXPECT_TRUE(Append("a").ok());
  CloseBoth();
  {
    auto rocks = OpenShardRocks(*DatabaseParts::MakeEnvironment(path_, {}), 0, false).value();
    EXPECT_TRUE(rocks.db->Delete(rocksdb::WriteOptions(), meta::CommitStateKey()).ok());
    rocks.families.clear();
    rocks.default_family.reset();
    EXPECT_TRUE(rocks.db->Close().ok());
  }
  site_ = RaftSite::Open(AloneAt(directory_ / "log")).value();
  EXPECT_EQ(OpenReplica().status().code(), Code::kCorruption);
}

// A replica that cannot apply an entry would differ from the others.
TEST_F(ReplicaTest, AnEntryThatCannotBeAppliedEndsTheReplica) {
  EXPECT_TRUE(Append("a").ok());
  ASSERT_TRUE(site_->Propose(kGroup, {"no entry"}, kPatience).ok());
  while (replica_->failure().ok()) std::this_thread::yield();
  EXPECT_EQ(replica_->state(), ReplicaState::kFailed);
  EXPECT_EQ(replica_->Lead(kPatience).status().code(), Code::kCorruption);
  EXPECT_NE(replica_->failure().message().find("takes part no more"), std::string::npos);
}

}  // namespace
}  // namespace topicdb::replication
