#include "topicdb/repair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "store/care/care_database.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

using Messages = std::vector<SeenMessage>;

Repair RepairOk(const std::string& path) {
  const auto report = RepairDatabase(path, {});
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : Repair();
}

std::uint64_t LostIn(const Repair& report) {
  std::uint64_t lost = 0;
  for (const Problem& problem : report.problems) lost += problem.messages;
  return lost;
}

// Returns the sizes and times of the table files of a directory, by name.
std::map<std::string, std::pair<std::uintmax_t, fs::file_time_type>> FilesOf(
    const std::string& directory) {
  std::map<std::string, std::pair<std::uintmax_t, fs::file_time_type>> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".sst") continue;
    files[entry.path().filename().string()] = {entry.file_size(), entry.last_write_time()};
  }
  return files;
}

TEST(Repair, WhatIsWholeStaysAsItIs) {
  const CareDatabase database;
  const auto before = FilesOf(database.shard_path(0));
  const Repair report = RepairOk(database.path());
  EXPECT_TRUE(report.shards.empty());
  EXPECT_TRUE(report.problems.empty());
  EXPECT_TRUE(report.remaining.empty());
  EXPECT_EQ(report.quarantine, "");
  EXPECT_FALSE(fs::exists(database.path() + "/quarantine"));
  EXPECT_EQ(FilesOf(database.shard_path(0)), before);
}

TEST(Repair, OfADamagedPageOnlyItsMessagesAreLost) {
  const CareDatabase database;
  const Messages before = database.ReadAll();
  const std::uint32_t lost = database.DamagePage(1, 2);
  const auto untouched = FilesOf(database.shard_path(0));
  const Repair report = RepairOk(database.path());
  EXPECT_EQ(report.shards, std::vector<std::uint32_t>{1});
  EXPECT_EQ(report.messages, CareDatabase::kMessages - lost);
  EXPECT_EQ(LostIn(report), lost);
  EXPECT_TRUE(report.remaining.empty());
  EXPECT_EQ(FilesOf(database.shard_path(0)), untouched);
  EXPECT_TRUE(VerifyDatabase(database.path(), {})->problems.empty());
  const Messages after = database.ReadAll();
  EXPECT_EQ(after.size(), before.size() - lost);
  EXPECT_TRUE(std::includes(before.begin(), before.end(), after.begin(), after.end()))
      << "what is left has its serials";
}

TEST(Repair, TheDamagedShardIsInTheQuarantine) {
  const CareDatabase database;
  const std::string table = database.Tables(1).front();
  CareDatabase::Flip(table);
  const std::uintmax_t size = fs::file_size(table);
  const Repair report = RepairOk(database.path());
  ASSERT_TRUE(report.quarantine.starts_with(database.path() + "/quarantine/"));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(report.quarantine)) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_EQ(names, std::vector<std::string>{"0001"});
  EXPECT_EQ(fs::file_size(report.quarantine + "/0001/" + fs::path(table).filename().string()),
            size);
  for (const Problem& problem : report.problems) {
    EXPECT_EQ(problem.what.find(".scratch"), std::string::npos) << problem.what;
  }
}

TEST(Repair, EachRepairHasAQuarantineOfItsOwn) {
  const CareDatabase database;
  database.DamagePage(1, 2);
  const std::string first = RepairOk(database.path()).quarantine;
  database.DamagePage(0, 1);
  const std::string second = RepairOk(database.path()).quarantine;
  EXPECT_LT(first, second) << "names sort by time";
  EXPECT_TRUE(fs::exists(first + "/0001"));
  EXPECT_TRUE(fs::exists(second + "/0000"));
}

TEST(Repair, SerialsAreNotUsedAgain) {
  const CareDatabase database;
  Serial last;
  database.Open(1, [&](const Shard& shard, const Slab&) { last = shard.view()->serial(); });
  database.DamagePage(1, 0);
  ASSERT_EQ(RepairOk(database.path()).shards.size(), 1U);
  DatabaseParts parts(database.path());
  parts.Append({{TopicIn(1, 2), 1, "new"}});
  EXPECT_GT(parts.shard(1)->Stats().serial, last);
}

TEST(Repair, WithoutCurrentNothingIsLost) {
  const CareDatabase database;
  const Messages before = database.ReadAll();
  fs::remove(database.shard_path(0) + "/CURRENT");
  const Repair report = RepairOk(database.path());
  EXPECT_EQ(report.shards, std::vector<std::uint32_t>{0});
  EXPECT_EQ(LostIn(report), 0U);
  EXPECT_EQ(database.ReadAll(), before);
}

TEST(Repair, AShardThatIsGoneRemainsAProblem) {
  const CareDatabase database;
  fs::remove_all(database.shard_path(1));
  const Repair report = RepairOk(database.path());
  EXPECT_TRUE(report.shards.empty());
  ASSERT_EQ(report.remaining.size(), 1U);
  EXPECT_EQ(report.remaining[0].shard, 1U);
  EXPECT_EQ(report.quarantine, "");
}

// Each number that somebody may have stored of the shard is behind those of the new one.
TEST(Repair, AShardThatIsGoneBeginsAnewIfItIsAskedTo) {
  const CareDatabase database;
  const Messages before = database.ReadAll();
  Serial last;
  {
    DatabaseParts parts(database.path());
    ASSERT_TRUE(parts.upkeep.Rotate(std::nullopt, false).ok());
    last = parts.shard(1)->Stats().serial;
  }
  fs::remove_all(database.shard_path(1));
  RepairOptions options;
  options.replace_missing = true;
  const auto report = RepairDatabase(database.path(), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->shards, std::vector<std::uint32_t>{1});
  EXPECT_EQ(report->messages, 0U);
  EXPECT_TRUE(report->remaining.empty());
  EXPECT_EQ(report->quarantine, "") << "nothing was moved there";
  EXPECT_FALSE(fs::exists(database.path() + "/quarantine"));
  ASSERT_FALSE(report->problems.empty());
  EXPECT_NE(report->problems[0].what.find("all of its messages"), std::string::npos);
  EXPECT_TRUE(VerifyDatabase(database.path(), {})->problems.empty());

  EXPECT_EQ(database.ReadAll().size(), before.size() - CareDatabase::kMessages);
  DatabaseParts parts(database.path());
  parts.Append({{TopicIn(1, 2), 1, "new"}});
  EXPECT_GT(parts.shard(1)->Stats().serial, last.Next(1'000'000));
  for (const SlabInfo& slab : parts.upkeep.Slabs()) {
    if (slab.id.shard != 1) continue;
    EXPECT_GT(slab.id.generation, Generation{1'000});
  }
}

TEST(Repair, WhatIsOnlyDamagedIsStillSalvaged) {
  const CareDatabase database;
  const std::uint32_t lost = database.DamagePage(1, 2);
  fs::remove_all(database.shard_path(0));
  RepairOptions options;
  options.replace_missing = true;
  const auto report = RepairDatabase(database.path(), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->shards, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(report->messages, CareDatabase::kMessages - lost);
  EXPECT_TRUE(fs::exists(report->quarantine + "/0001"));
  EXPECT_FALSE(fs::exists(report->quarantine + "/0000"));
  EXPECT_TRUE(report->remaining.empty());
}

TEST(Repair, WhereThereIsNoDatabaseItFails) {
  const TestDirectory directory;
  EXPECT_EQ(RepairDatabase(directory / "none", {}).status().code(), Code::kNotFound);
}

TEST(Repair, WithoutTheDescriptorItFailsAndSaysWhatToDo) {
  const CareDatabase database;
  CareDatabase::Flip(database.path() + "/TOPICDB");
  const Status refused = RepairDatabase(database.path(), {}).status();
  EXPECT_EQ(refused.code(), Code::kCorruption);
  EXPECT_NE(refused.message().find("restore a snapshot"), std::string::npos) << refused.message();
}

TEST(Repair, AnOpenDatabaseIsLocked) {
  const CareDatabase database;
  OpenOptions options;
  options.only_shards = {1};
  const DatabaseParts writer(database.path(), options);
  const Status refused = RepairDatabase(database.path(), {}).status();
  EXPECT_EQ(refused.code(), Code::kLocked);
  EXPECT_NE(refused.message().find("close the database"), std::string::npos) << refused.message();
}

TEST(Repair, IfItIsInterruptedTheDatabaseIsAsItWas) {
  const CareDatabase database;
  const std::uint32_t lost = database.DamagePage(1, 2);
  const auto before = FilesOf(database.shard_path(1));
  const auto stopped = RepairDatabase(database.path(), {}, [] { return true; });
  EXPECT_EQ(stopped.status().code(), Code::kInterrupted);
  EXPECT_EQ(FilesOf(database.shard_path(1)), before);
  EXPECT_FALSE(fs::exists(database.path() + "/quarantine"));
  EXPECT_EQ(LostIn(RepairOk(database.path())), lost);
}

TEST(Repair, RemovesWhatARepairHasLeftThatWasCutShort) {
  const CareDatabase database;
  const std::string quarantine = database.path() + "/quarantine";
  for (const char* name :
       {"cut/0001.building", "cut/0001.scratch", "old/0001", "old/0000.scratch"}) {
    fs::create_directories(quarantine + "/" + name);
    std::ofstream(quarantine + "/" + name + "/file") << "content";
  }
  EXPECT_TRUE(RepairOk(database.path()).shards.empty());
  EXPECT_FALSE(fs::exists(quarantine + "/cut"));
  EXPECT_FALSE(fs::exists(quarantine + "/old/0000.scratch"));
  EXPECT_TRUE(fs::exists(quarantine + "/old/0001/file")) << "what an earlier repair has replaced";
}

TEST(Repair, TellsItsPhasesInTheirOrder) {
  const CareDatabase database;
  database.DamagePage(1, 2);
  std::vector<RepairPhase> phases;
  RepairOptions options;
  options.progress = [&](RepairPhase phase, std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    phases.push_back(phase);
  };
  ASSERT_TRUE(RepairDatabase(database.path(), options).ok());
  EXPECT_TRUE(std::is_sorted(phases.begin(), phases.end()));
  EXPECT_EQ(phases.front(), RepairPhase::kVerify);
  EXPECT_EQ(phases.back(), RepairPhase::kCheck);
}

}  // namespace
}  // namespace topicdb
