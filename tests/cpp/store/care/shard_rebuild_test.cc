#include "store/care/shard_rebuild.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "store/care/care_database.h"
#include "store/catalog/family_names.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

// Rebuilds shard 1 of a database, and puts it in the place of the damaged one if a test asks.
class ShardRebuildTest : public ::testing::Test {
 protected:
  Result<RebuiltShard> Rebuild(const InterruptCheck& interrupted = {}) {
    const auto environment = DatabaseParts::MakeEnvironment(database_.path(), {});
    const auto advance = [&](std::uint64_t messages) { advanced_ += messages; };
    return RebuildShard(*environment, 1, database_.shard_path(1), scratch_, rebuilt_, jobs_,
                        advance, interrupted);
  }
  RebuiltShard RebuildOk() {
    const auto report = Rebuild();
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : RebuiltShard();
  }
  void Replace() {
    fs::rename(database_.shard_path(1), database_ / "damaged");
    fs::rename(rebuilt_, database_.shard_path(1));
  }
  // Removes the table files of one column family of the shard.
  void RemoveTables(const std::string& family) {
    std::vector<std::string> names;
    database_.Open(1, [&](const Shard& shard, const Slab&) {
      std::vector<rocksdb::LiveFileMetaData> files;
      shard.view()->db()->GetLiveFilesMetaData(&files);
      for (const rocksdb::LiveFileMetaData& file : files) {
        if (file.column_family_name == family) names.push_back(file.relative_filename);
      }
    });
    ASSERT_FALSE(names.empty());
    for (const std::string& name : names) fs::remove(database_.shard_path(1) + "/" + name);
  }
  // Returns whether a problem says this.
  static bool Says(const RebuiltShard& report, const std::string& what) {
    return std::any_of(report.problems.begin(), report.problems.end(), [&](const Problem& problem) {
      return problem.what.find(what) != std::string::npos;
    });
  }

  const CareDatabase database_;
  const std::string scratch_ = database_ / "scratch";
  const std::string rebuilt_ = database_ / "rebuilt";
  meta::JobRecords jobs_;
  std::uint64_t advanced_ = 0;
};

TEST_F(ShardRebuildTest, OfAWholeShardItMakesTheSame) {
  const auto before = database_.ReadAll();
  const auto files = database_.Tables(1);
  const RebuiltShard report = RebuildOk();
  EXPECT_EQ(report.messages, CareDatabase::kMessages);
  EXPECT_TRUE(report.problems.empty());
  EXPECT_FALSE(fs::exists(scratch_));
  EXPECT_EQ(database_.Tables(1), files) << "what it reads stays";
  Replace();
  EXPECT_EQ(database_.ReadAll(), before);
  EXPECT_TRUE(VerifyDatabase(database_.path(), {})->problems.empty());
}

TEST_F(ShardRebuildTest, OfNothingItMakesAnEmptyShardBehindWhatWasUsed) {
  const auto environment = DatabaseParts::MakeEnvironment(database_.path(), {});
  const UsedNumbers used{Serial{5'000'000}, Generation{7}};
  meta::JobRecord job;
  job.last.number = 3;
  job.last.shards = {1};
  jobs_["known to others"] = job;
  const auto report = ReplaceShard(*environment, 1, rebuilt_, jobs_, used);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->messages, 0U);
  EXPECT_TRUE(Says(*report, "its directory was gone"));
  Replace();
  DatabaseParts parts(database_.path());
  EXPECT_GE(parts.shard(1)->Stats().serial, used.serial);
  for (const SlabInfo& slab : parts.upkeep.Slabs()) {
    if (slab.id.shard != 1) continue;
    EXPECT_EQ(slab.id.generation, Generation{8});
  }
  EXPECT_TRUE(parts.shard(1)->view()->jobs()->contains("known to others"));
  parts.Append({{TopicIn(1, 2), 1, "new"}});
  EXPECT_EQ(parts.shard(1)->Stats().messages, 1U);
}

TEST_F(ShardRebuildTest, KeepsGenerationsAndSerials) {
  std::vector<SlabInfo> before;
  Serial serial;
  {
    DatabaseParts parts(database_.path());
    ASSERT_TRUE(parts.upkeep.Rotate(std::nullopt, false).ok());
    parts.Append({{TopicIn(1, 2), 7, "in the second generation"}});
    before = parts.upkeep.Slabs();
    serial = parts.shard(1)->Stats().serial;
  }
  EXPECT_TRUE(RebuildOk().problems.empty());
  Replace();
  DatabaseParts parts(database_.path());
  const std::vector<SlabInfo> after = parts.upkeep.Slabs();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].id, before[i].id);
    EXPECT_EQ(after[i].read_only, before[i].read_only);
    EXPECT_EQ(after[i].messages, before[i].messages);
    EXPECT_EQ(after[i].first_timestamp, before[i].first_timestamp);
    EXPECT_EQ(after[i].last_timestamp, before[i].last_timestamp);
    EXPECT_EQ(after[i].streams, before[i].streams);
  }
  EXPECT_EQ(parts.shard(1)->Stats().serial, serial);
}

TEST_F(ShardRebuildTest, GenerationsKeepTheirLayouts) {
  {
    DatabaseParts parts(database_.path());
    ASSERT_TRUE(parts.upkeep.Rotate(std::nullopt, false, LayoutKind::kSkipstream).ok());
    parts.Append({{TopicIn(1, 2), 7, "state"}, {TopicIn(1, 2), 8, "state"}});
  }
  const auto before = database_.ReadAll();
  EXPECT_TRUE(RebuildOk().problems.empty());
  Replace();
  EXPECT_EQ(database_.ReadAll(), before);
  DatabaseParts parts(database_.path());
  for (const SlabInfo& slab : parts.upkeep.Slabs()) {
    EXPECT_EQ(slab.layout, slab.read_only ? LayoutKind::kColumnar : LayoutKind::kSkipstream);
  }
}

// The names of the column families tell the layouts.
TEST_F(ShardRebuildTest, WithoutTheirRecordsGenerationsHaveTheirLayouts) {
  {
    DatabaseParts parts(database_.path());
    ASSERT_TRUE(parts.upkeep.Rotate(std::nullopt, false, LayoutKind::kSkipstream).ok());
    parts.Append({{TopicIn(1, 2), 7, "state"}});
    ASSERT_TRUE(parts.upkeep.Rotate(std::nullopt, false, LayoutKind::kColumnar).ok());
    parts.Append({{TopicIn(1, 2), 8, "log"}});
  }
  RemoveTables("default");
  const RebuiltShard report = RebuildOk();
  Replace();
  DatabaseParts parts(database_.path());
  std::vector<LayoutKind> layouts;
  for (const SlabInfo& slab : parts.upkeep.Slabs()) {
    if (slab.id.shard == 1 && slab.messages > 0) layouts.push_back(slab.layout);
  }
  // The words of topics of a state are in the records of its structures.
  EXPECT_EQ(layouts.front(), LayoutKind::kColumnar);
  EXPECT_EQ(layouts.back(), LayoutKind::kColumnar);
  EXPECT_EQ(report.messages, CareDatabase::kMessages + 1U);
}

TEST_F(ShardRebuildTest, ADeletedMessageDoesNotComeBack) {
  {
    const auto database = Database::Open(database_.path(), {}).value();
    const Filter all = Filter::Parse("t/+").value();
    ASSERT_TRUE(database->Delete(all, {0, 1'000}).ok());
  }
  const auto before = database_.ReadAll();
  EXPECT_EQ(before.size(), 400U);
  EXPECT_TRUE(RebuildOk().problems.empty());
  Replace();
  EXPECT_EQ(database_.ReadAll(), before);
}

TEST_F(ShardRebuildTest, ADamagedPageIsReportedWithItsSlabAndStructures) {
  const std::uint32_t lost = database_.DamagePage(1, 2);
  const RebuiltShard report = RebuildOk();
  EXPECT_EQ(report.messages, CareDatabase::kMessages - lost);
  ASSERT_EQ(report.problems.size(), 1U);
  const Problem& problem = report.problems[0];
  EXPECT_EQ(problem.shard, 1U);
  EXPECT_EQ(problem.slab, (SlabId{1, RetentionClassId{0}, Generation{1}}));
  EXPECT_EQ(problem.retention_class, "#");
  EXPECT_EQ(problem.messages, lost);
  EXPECT_FALSE(problem.structures.empty());
}

TEST_F(ShardRebuildTest, WithoutItsPagesTheMessagesAreLostAndCounted) {
  RemoveTables(PagesFamilyName({1, RetentionClassId{0}, Generation{1}}));
  const RebuiltShard report = RebuildOk();
  EXPECT_EQ(report.messages, 0U);
  std::uint64_t lost = 0;
  for (const Problem& problem : report.problems) lost += problem.messages;
  EXPECT_EQ(lost, CareDatabase::kMessages);
}

// The default family has the records of generations, structures and commits.
TEST_F(ShardRebuildTest, WithoutItsRecordsAShardIsMadeOfItsMessages) {
  const auto before = database_.ReadAll();
  jobs_["query"].last = {7, kNoSerial, kNoSerial, WallTime(), {1}};
  RemoveTables("default");
  const RebuiltShard report = RebuildOk();
  EXPECT_EQ(report.messages, CareDatabase::kMessages);
  EXPECT_TRUE(Says(report, "its record is lost"));
  EXPECT_TRUE(Says(report, "the number of its last commit is lost"));
  Replace();
  EXPECT_EQ(database_.ReadAll(), before);
  database_.Open(1, [](const Shard& shard, const Slab&) {
    EXPECT_TRUE(shard.view()->jobs()->contains("query")) << "as the other shards know it";
    EXPECT_GT(shard.view()->serial(), Serial{1'000'000}) << "behind all that may have been used";
  });
}

TEST_F(ShardRebuildTest, WhatOtherShardsKnowOfJobsCountsOnlyIfRecordsAreLost) {
  jobs_["query"].last = {7, kNoSerial, kNoSerial, WallTime(), {1}};
  RebuildOk();
  Replace();
  database_.Open(
      1, [](const Shard& shard, const Slab&) { EXPECT_TRUE(shard.view()->jobs()->empty()); });
}

TEST_F(ShardRebuildTest, MayBeInterruptedAndTellsItsProgress) {
  constexpr std::uint64_t kMany = 20'000;
  {
    DatabaseParts parts(database_.path());
    const std::string topic = TopicIn(1, 2);
    parts.Append(std::vector<MessageView>(kMany, {topic, 5, "x"}));
  }
  const auto interrupted = Rebuild([] { return true; });
  EXPECT_EQ(interrupted.status().code(), Code::kInterrupted);
  EXPECT_FALSE(fs::exists(scratch_));
  EXPECT_EQ(advanced_, 0U);
  fs::remove_all(rebuilt_);
  EXPECT_EQ(RebuildOk().messages, CareDatabase::kMessages + kMany);
  EXPECT_GT(advanced_, 0U);
  EXPECT_LE(advanced_, CareDatabase::kMessages + kMany);
}

}  // namespace
}  // namespace topicdb
