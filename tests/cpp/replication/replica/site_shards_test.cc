// Tests of a database whose shards are replicas of one site. tests/cluster has those of several.
#include "replication/replica/site_shards.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "replication/raft/raft_alone.h"
#include "subscribe/subscribing.h"
#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/transaction.h"

namespace topicdb::replication {
namespace {

constexpr std::uint32_t kShards = 2;

class SiteShardsTest : public testing::Test {
 protected:
  SiteShardsTest() {
    OpenOptions options;
    options.schema.shards = kShards;
    EXPECT_TRUE(Database::Open(path_, options).ok());
    for (const auto& file : std::filesystem::directory_iterator(path_ + "/shards")) {
      std::filesystem::remove_all(file);  // the first leader makes the shards
    }
    site_ = RaftSite::Open(AloneAt(directory_ / "log")).value();
    Open();
  }
  void Open() {
    const auto make = [this](std::shared_ptr<const ShardEnvironment> environment) {
      ReplicaOptions options;
      options.group = kGroup;
      options.voters = voters_;
      options.commit_patience = patience_;
      auto made = std::make_unique<SiteShards>(site_.get(), std::move(environment), options);
      shards_ = made.get();
      return made;
    };
    database_ = Database::Open(path_, {}, make).value();
  }
  // Opens the database anew, with another log, in which it never leads.
  void OpenWithoutMajority() {
    EXPECT_TRUE(database_->Close().ok());
    voters_ = {kReplica, kReplica + 1};
    patience_ = std::chrono::milliseconds(100);
    site_.reset();
    std::filesystem::remove_all(path_ + "/shards");
    std::filesystem::create_directory(path_ + "/shards");
    site_ = RaftSite::Open(AloneAt(directory_ / "other log")).value();
    Open();
  }
  void OpenAgain() {
    EXPECT_TRUE(database_->Close().ok());
    site_.reset();
    site_ = RaftSite::Open(AloneAt(directory_ / "log")).value();
    Open();
  }
  void AwaitLead() {
    for (std::uint32_t shard = 0; shard < kShards; ++shard) {
      EXPECT_TRUE(shards_->Find(shard)->Lead(kPatience).ok());
    }
  }
  // Appends messages to both shards.
  Result<Receipt> Append(int first, int last) {
    std::vector<std::string> topics;
    const std::vector<std::string> values = Counted(first, last);
    for (const std::string& value : values) topics.push_back("t/" + value);
    std::vector<MessageView> messages;
    for (std::size_t i = 0; i < values.size(); ++i) messages.push_back({topics[i], 1, values[i]});
    return database_->Append(messages);
  }
  std::size_t Count() { return TakeAll(*database_, "#").size(); }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
  std::vector<std::uint64_t> voters_{kReplica};
  std::chrono::milliseconds patience_{10'000};
  std::unique_ptr<RaftSite> site_;
  SiteShards* shards_ = nullptr;
  std::unique_ptr<Database> database_;
};

TEST_F(SiteShardsTest, ADatabaseIsWrittenAndReadAsALocalOneIs) {
  AwaitLead();
  const auto receipt = Append(0, 100);
  ASSERT_TRUE(receipt.ok()) << receipt.status().message();
  EXPECT_EQ(receipt->serials.size(), kShards);
  EXPECT_EQ(Count(), 100U);
  const auto transaction = database_->Begin({}).value();
  EXPECT_TRUE(transaction->Write({"t/5", 7, "in a transaction"}).ok());
  EXPECT_TRUE(transaction->Commit().ok());
  EXPECT_TRUE(database_->upkeep().Rotate(std::nullopt).ok());
  EXPECT_TRUE(Append(100, 200).ok());
  const auto deleted = database_->Delete(Filter::Parse("t/150").value(), {});
  EXPECT_EQ(deleted.value().count, 1U);
  EXPECT_TRUE(database_->Flush().ok());
  EXPECT_TRUE(database_->upkeep().Maintain(std::nullopt).ok());
  OpenAgain();
  AwaitLead();
  EXPECT_EQ(Count(), 200U);
}

TEST_F(SiteShardsTest, AnotherProcessReadsWhatIsInFiles) {
  AwaitLead();
  ASSERT_TRUE(Append(0, 100).ok());
  ASSERT_TRUE(database_->Flush().ok());
  OpenOptions options;
  options.read_only = true;
  const auto reader = Database::Open(path_, options);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(TakeAll(**reader, "#").size(), 100U);
  const Status files = (*reader)->AwaitAcknowledged(kPatience);
  EXPECT_EQ(files.code(), Code::kStale);
  EXPECT_NE(files.message().find("by way of its site"), std::string::npos) << files.message();
  EXPECT_EQ(Database::Open(path_, {}).status().code(), Code::kLocked);
}

TEST_F(SiteShardsTest, AShardIsMadeByWhoeverLeads) {
  EXPECT_TRUE(shards_->Find(1)->AwaitMade(kPatience));
  EXPECT_GE(database_->upkeep().Slabs().value().size(), 1U);
  OpenWithoutMajority();
  EXPECT_FALSE(shards_->Find(1)->AwaitMade(std::chrono::milliseconds(10)));
}

TEST_F(SiteShardsTest, WithoutAMajorityItIsRead) {
  OpenWithoutMajority();
  EXPECT_EQ(Count(), 0U);
  EXPECT_EQ(Append(0, 1).status().code(), Code::kNotLeader);
  EXPECT_EQ(database_->Begin({}).status().code(), Code::kNotLeader);
  EXPECT_EQ(database_->Delete(Filter::Everything(), {}).status().code(), Code::kNotLeader);
  EXPECT_EQ(database_->upkeep().Rotate(std::nullopt).code(), Code::kNotLeader);
  EXPECT_EQ(database_->FindAppend("id").status().code(), Code::kNotLeader);
  EXPECT_TRUE(database_->upkeep().Maintain(std::nullopt).ok()) << "it looks after nothing";
  EXPECT_TRUE(database_->Flush().ok());
}

TEST_F(SiteShardsTest, AReadWaitsForACommit) {
  AwaitLead();
  const auto receipt = Append(0, 100);
  const std::map<std::uint32_t, Serial> seen(receipt->serials.begin(), receipt->serials.end());
  EXPECT_TRUE(database_->AwaitCommits(seen, kPatience).ok());
  const Status stale = database_->AwaitCommits({{1, seen.at(1).Next()}}, std::chrono::seconds(0));
  EXPECT_EQ(stale.code(), Code::kStale);
  EXPECT_NE(stale.message().find("shard 1 of " + path_), std::string::npos) << stale.message();
  EXPECT_EQ(database_->AwaitCommits({{kShards, Serial{1}}}, std::nullopt).code(),
            Code::kInvalidArgument);
}

TEST_F(SiteShardsTest, AReadSeesWhatWasAcknowledged) {
  AwaitLead();
  ASSERT_TRUE(Append(0, 100).ok());
  EXPECT_TRUE(database_->AwaitAcknowledged(kPatience).ok());
  OpenWithoutMajority();
  const Status alone = database_->AwaitAcknowledged(std::chrono::milliseconds(100));
  EXPECT_EQ(alone.code(), Code::kNotLeader) << alone.message();
  EXPECT_NE(alone.message().find(" of " + path_ + ": no majority"), std::string::npos)
      << alone.message();
  EXPECT_TRUE(database_->Close().ok());
  EXPECT_EQ(database_->AwaitAcknowledged(kPatience).code(), Code::kClosed);
}

TEST_F(SiteShardsTest, AReplicaThatHasFailedKnowsNothing) {
  AwaitLead();
  ASSERT_TRUE(site_->Propose(kGroup + 1, {"no entry"}, kPatience).ok());
  while (shards_->Find(1)->failure().ok()) std::this_thread::yield();
  const Status failed = database_->AwaitAcknowledged(kPatience);
  EXPECT_EQ(failed.code(), Code::kCorruption);
  EXPECT_NE(failed.message().find("shard 1 of " + path_), std::string::npos) << failed.message();
}

TEST_F(SiteShardsTest, TheRetentionClassesAreChanged) {
  AwaitLead();
  const auto set = database_->upkeep().SetRetention({{"t/1", std::chrono::hours(1)}}, false);
  ASSERT_TRUE(set.ok()) << set.status().message();
  ASSERT_TRUE(Append(0, 10).ok());
  for (const auto& [index, replica] : shards_->All()) {
    EXPECT_EQ(replica->shard()->rules_version(), 1U);
  }
  OpenAgain();
  AwaitLead();
  std::uint64_t found = 0;
  const auto slabs = database_->upkeep().Slabs();
  for (const SlabInfo& slab : *slabs) {
    if (slab.retention_class == "t/1") found += slab.messages;
  }
  EXPECT_EQ(found, 1U);
}

TEST_F(SiteShardsTest, AShardThatNobodyLeadsTakesTheRetentionClassesLater) {
  OpenWithoutMajority();
  const Status set =
      database_->upkeep().SetRetention({{"t/1", std::chrono::hours(1)}}, false).status();
  EXPECT_EQ(set.code(), Code::kUnknownOutcome);
  EXPECT_NE(set.message().find("shard 0 of " + path_ + ": no replica that leads has taken"),
            std::string::npos)
      << set.message();
}

TEST_F(SiteShardsTest, ASnapshotIsALocalDatabase) {
  AwaitLead();
  ASSERT_TRUE(Append(0, 50).ok());
  ASSERT_TRUE(
      database_->upkeep().SetRetention({{"t/7", std::chrono::hours(1)}}, /*dry_run=*/false).ok());
  ASSERT_TRUE(Append(50, 100).ok());
  ASSERT_TRUE(database_->Delete(Filter::Parse("t/3").value(), {}).ok());
  const auto made = database_->MakeSnapshot(directory_ / "copy", {});
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto receipt = Append(100, 110);
  ASSERT_TRUE(receipt.ok()) << receipt.status().message();
  ASSERT_EQ(made->serials.size(), kShards);
  const auto copy = Database::Open(directory_ / "copy", {});
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_EQ(TakeAll(**copy, "#").size(), 99U);
  EXPECT_EQ((*copy)->upkeep().Retention().value(), database_->upkeep().Retention().value());
  const std::vector<MessageView> more{{"t/7", 2, "in the copy"}};
  const auto stored = (*copy)->Append(more);
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  const auto [shard, serial] = stored->serials.front();
  EXPECT_EQ(serial, made->serials[shard].second.Next()) << "there is no gap";
  EXPECT_TRUE((*copy)->upkeep().SetRetention({}, /*dry_run=*/false).ok());
  EXPECT_TRUE((*copy)->upkeep().Maintain(std::nullopt).ok());
  EXPECT_EQ(Count(), 109U) << "the copy is another database";
  EXPECT_EQ(database_->MakeSnapshot(directory_ / "copy", {}).status().code(), Code::kExists);
}

// Entries are applied, and generations begin and end, while the files are copied.
TEST_F(SiteShardsTest, ASnapshotIsMadeWhileOthersWrite) {
  AwaitLead();
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (int i = 0; !ends; ++i) {
      EXPECT_TRUE(Append(10 * i, 10 * i + 10).ok());
      if (i % 5 > 0) continue;
      EXPECT_TRUE(database_->upkeep().Rotate(std::nullopt).ok());
    }
  });
  for (int round = 0; round < 5; ++round) {
    const std::string path = directory_ / ("copy" + std::to_string(round));
    const auto made = database_->MakeSnapshot(path, {});
    EXPECT_TRUE(made.ok()) << made.status().message();
    const auto copy = Database::Open(path, {});
    EXPECT_TRUE(copy.ok()) << copy.status().message();
    if (!copy.ok()) break;
    std::set<std::string> found;
    for (const std::string& value : TakeAll(**copy, "#")) EXPECT_TRUE(found.insert(value).second);
    EXPECT_LE(found.size(), Count());
    EXPECT_TRUE((*copy)->Append(std::vector<MessageView>{{"t/1", 2, "more"}}).ok());
  }
  ends = true;
  writer.join();
}

}  // namespace
}  // namespace topicdb::replication
