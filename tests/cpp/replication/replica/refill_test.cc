// Tests of replicas that are damaged, and fill themselves from other sites.
#include "replication/replica/refill.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "replication/cluster/sites.h"
#include "replication/replica/site_shards.h"
#include "topicdb/repair.h"

namespace topicdb::replication {
namespace {

class HealingTest : public SiteTest {
 protected:
  // Appends, and moves everything to files, at all sites.
  Receipt Fill(int count = 20) {
    Receipt last;
    for (int i = 0; i < count; ++i) last = Append(std::to_string(i));
    for (const auto& [name, here] : here_) {
      ReadAt(name, last);
      EXPECT_TRUE(here.database->Flush().ok());
    }
    return last;
  }
  std::string ShardOf(const std::string& name) const {
    return directory_ / (name + "/shards/0000");
  }
  // Closes a site, and leaves its directory as it is.
  void Close(const std::string& name) {
    here_.at(name).database.reset();
    here_.at(name).site.reset();
  }
  // Overwrites bytes in the middle of all files of a site whose names begin or end like this.
  void Overwrite(const std::string& name, const std::string& like) const {
    for (const auto& entry : std::filesystem::directory_iterator(FollowLink(ShardOf(name)))) {
      const std::string file = entry.path().filename();
      if (!file.ends_with(like) && !file.starts_with(like)) continue;
      std::fstream bytes(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
      bytes << "damage";
    }
  }
  std::size_t Quarantined(const std::string& name) const {
    const std::string all = directory_ / (name + "/quarantine");
    std::size_t count = 0;
    if (!Exists(all)) return count;
    for (const auto& one : std::filesystem::directory_iterator(all)) {
      count += IsDirectory(one.path().string() + "/0000") ? 1 : 0;
    }
    return count;
  }
  std::shared_ptr<Replica> ReplicaAt(const std::string& name) {
    return here_.at(name).site->shards()->Find(0);
  }
  void ExpectAllTheSame() {
    const auto verified = here_.begin()->second.site->Verify(kLong);
    ASSERT_TRUE(verified.ok()) << verified.status().message();
    for (const ReplicaVerification& one : *verified) {
      EXPECT_EQ(one.outcome, ReplicaOutcome::kSame) << one.site << ": " << one.why;
    }
  }
  static std::vector<std::string> Numbers(int count) {
    std::vector<std::string> values;
    for (int i = 0; i < count; ++i) values.push_back(std::to_string(i));
    return values;
  }
};

TEST_F(HealingTest, AReplicaThatCannotBeOpenedComesFromAnotherOne) {
  StartAll();
  const Receipt receipt = Fill();
  for (const char* like : {"MANIFEST", "CURRENT"}) {
    Close("c");
    Overwrite("c", like);
    if (std::string(like) == "CURRENT") std::filesystem::remove(ShardOf("c") + "/CURRENT");
    Start("c");
    OpenAt({"c"});
    EXPECT_EQ(ReadAt("c", receipt), Numbers(20)) << like;
    EXPECT_NE(ReplicaAt("c")->state(), ReplicaState::kHealing);
    ExpectAllTheSame();
  }
  EXPECT_EQ(Quarantined("c"), 2U);
  EXPECT_FALSE(Exists(ShardOf("c") + ".damaged"));
  // It takes part as before.
  EXPECT_EQ(ReadAt("c", AppendAt("c", "20")), Numbers(21));
}

TEST_F(HealingTest, WhatAComparisonCannotReadIsHealed) {
  StartAll();
  const Receipt receipt = Fill();
  Close("c");
  Overwrite("c", ".sst");
  Start("c");
  OpenAt({"c"});
  const auto verified = here_.at("a").site->Verify(kLong);
  ASSERT_TRUE(verified.ok());
  // Where its own opening has not met the damage, the comparison has.
  Await([&] { return Quarantined("c") == 1 || Exists(ShardOf("c") + ".damaged"); });
  EXPECT_TRUE(ReplicaAt("c")->AwaitHealed(kLong).ok());
  EXPECT_EQ(ReadAt("c", receipt), Numbers(20));
  ExpectAllTheSame();
}

TEST_F(HealingTest, AReplicaIsFilledAnewOnRequest) {
  StartAll();
  const Receipt receipt = Fill();
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  for (const char* name : {"a", "b", "c"}) {  // one of them leads, and hands over
    EXPECT_TRUE(ReplicaAt(name)->shard()->view()->db()->Put(options, "a key", "wrong").ok());
    EXPECT_TRUE(here_.at("b").site->Heal(name, 0).ok());
    Await([&] { return Quarantined(name) == 1 && !Exists(ShardOf(name) + ".damaged"); });
    EXPECT_TRUE(ReplicaAt(name)->AwaitHealed(kLong).ok());
    EXPECT_EQ(ReadAt(name, receipt), Numbers(20)) << name;
    ExpectAllTheSame();
  }
  EXPECT_EQ(ReadAt("a", Append("20")), Numbers(21));
}

TEST_F(HealingTest, AppendsGoOnWhileAReplicaIsFilled) {
  StartAll();
  Fill();
  EXPECT_TRUE(here_.at("a").site->Heal("c", 0).ok());
  Receipt last;
  for (int i = 20; i < 60; ++i) last = AppendAt("a", std::to_string(i));
  EXPECT_TRUE(ReplicaAt("c")->AwaitHealed(kLong).ok());
  EXPECT_EQ(ReadAt("c", last), Numbers(60));
  ExpectAllTheSame();
}

// Both of two sites are needed for a majority, also while one is filled.
TEST_F(HealingTest, OneOfTwoSitesIsFilledWhileBothTakeAppends) {
  sites_ = {{"a", ""}, {"b", ""}};
  Start("a");
  Start("b");
  OpenAt({"a", "b"});
  Fill();
  Close("b");
  Overwrite("b", "MANIFEST");
  Start("b");
  OpenAt({"b"});
  EXPECT_EQ(ReadAt("b", AppendAt("b", "20")), Numbers(21));
  ExpectAllTheSame();
}

TEST_F(HealingTest, ItWaitsForAnotherSiteAndGoesOnAfterAStart) {
  sites_ = {{"a", ""}, {"b", ""}};
  Start("a");
  Start("b");
  OpenAt({"a", "b"});
  const Receipt receipt = Fill();
  Close("a");
  Close("b");
  Overwrite("b", "MANIFEST");
  for (int round = 0; round < 2; ++round) {
    Start("b");
    const auto database = here_.at("b").site->OpenDatabase(open_, milliseconds(10));
    const Status waits =
        database.ok() ? here_.at("b").site->AwaitShards(milliseconds(10)) : database.status();
    EXPECT_TRUE(waits.code() == Code::kStale || waits.code() == Code::kNotLeader)
        << waits.message();
    here_.at("b").site.reset();
  }
  Start("b");
  Start("a");
  OpenAt({"a", "b"});
  EXPECT_EQ(ReadAt("b", receipt), Numbers(20));
  EXPECT_LE(Quarantined("b"), 1U);
  ExpectAllTheSame();
}

TEST_F(HealingTest, OneThatMustNotHealSaysWhatIsDamaged) {
  StartAll();
  Fill();
  Close("c");
  Overwrite("c", "MANIFEST");
  heals_ = false;
  Start("c");
  const auto opened = here_.at("c").site->OpenDatabase(open_, kLong);
  EXPECT_EQ(opened.status().code(), Code::kCorruption) << opened.status().message();
  EXPECT_EQ(Quarantined("c"), 0U);
  here_.erase("c");
}

TEST_F(HealingTest, ASiteAloneIsNotHealed) {
  sites_ = {{"a", ""}};
  Start("a");
  OpenAt({"a"});
  Fill();
  EXPECT_EQ(here_.at("a").site->Heal("a", 0).code(), Code::kCluster);
  Close("a");
  Overwrite("a", "MANIFEST");
  Start("a");
  EXPECT_EQ(here_.at("a").site->OpenDatabase(open_, kLong).status().code(), Code::kCorruption);
  EXPECT_EQ(Quarantined("a"), 0U);
}

TEST_F(HealingTest, ARepairOfASiteIsRefused) {
  StartAll();
  Fill();
  Close("c");
  const Status repaired = RepairDatabase(directory_ / "c", {}).status();
  EXPECT_EQ(repaired.code(), Code::kCluster);
  EXPECT_NE(repaired.message().find("topicdb cluster heal"), std::string::npos)
      << repaired.message();
  here_.erase("c");
}

}  // namespace
}  // namespace topicdb::replication
