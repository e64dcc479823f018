#include "topicdb/verify.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file/files.h"
#include "store/care/care_database.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

Verification VerifyOk(const std::string& path, bool deep = true) {
  VerifyOptions options;
  options.deep = deep;
  const auto report = VerifyDatabase(path, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : Verification();
}

// Expects one problem that says this, and returns it.
Problem TheProblem(const Verification& report, const std::string& what) {
  EXPECT_EQ(report.problems.size(), 1U);
  if (report.problems.empty()) return {};
  EXPECT_NE(report.problems[0].what.find(what), std::string::npos) << report.problems[0].what;
  return report.problems[0];
}

TEST(Verify, FindsNothingInWhatIsWhole) {
  const CareDatabase database;
  const Verification deep = VerifyOk(database.path());
  EXPECT_TRUE(deep.problems.empty());
  EXPECT_EQ(deep.shards, 2U);
  EXPECT_EQ(deep.slabs, 2U);
  EXPECT_EQ(deep.blocks, 2U);
  EXPECT_EQ(deep.messages, 2U * CareDatabase::kMessages);
  EXPECT_GT(deep.pages, 10U);
  const Verification shallow = VerifyOk(database.path(), /*deep=*/false);
  EXPECT_TRUE(shallow.problems.empty());
  EXPECT_EQ(shallow.messages, deep.messages) << "as the entries of blocks say";
  EXPECT_EQ(shallow.pages, 0U);
}

TEST(Verify, RunsBesideAWriter) {
  const CareDatabase database;
  DatabaseParts writer(database.path());
  writer.Append({{"t/1", 5, "new"}});
  const Verification report = VerifyOk(database.path());
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.messages, 2U * CareDatabase::kMessages + 1);
}

TEST(Verify, WhereThereIsNoDatabaseItFails) {
  const TestDirectory directory;
  EXPECT_EQ(VerifyDatabase(directory / "none", {}).status().code(), Code::kNotFound);
}

TEST(Verify, ADamagedDescriptorIsAProblem) {
  const CareDatabase database;
  CareDatabase::Flip(database.path() + "/TOPICDB");
  const Verification report = VerifyOk(database.path());
  TheProblem(report, "TOPICDB");
  EXPECT_EQ(report.shards, 0U);
}

TEST(Verify, AShardThatCannotBeOpenedKeepsNoOtherFromBeingChecked) {
  const CareDatabase database;
  fs::remove(database.shard_path(1) + "/CURRENT");
  const Verification report = VerifyOk(database.path());
  const Problem problem = TheProblem(report, "(nothing else of this shard was checked)");
  EXPECT_EQ(problem.shard, 1U);
  EXPECT_EQ(report.shards, 1U);
  EXPECT_EQ(report.messages, CareDatabase::kMessages);
}

TEST(Verify, ADamagedPageIsFoundIfAllIsRead) {
  const CareDatabase database;
  const std::uint32_t lost = database.DamagePage(1, 2);
  EXPECT_TRUE(VerifyOk(database.path(), /*deep=*/false).problems.empty());
  const Verification report = VerifyOk(database.path());
  const Problem problem = TheProblem(report, ", page 2: ");
  EXPECT_EQ(problem.shard, 1U);
  EXPECT_EQ(problem.slab, (SlabId{1, RetentionClassId{0}, Generation{1}}));
  EXPECT_EQ(problem.retention_class, "#");
  EXPECT_EQ(problem.messages, lost);
  ASSERT_TRUE(problem.times.has_value());
  EXPECT_LE(problem.times->first, problem.times->second);
  EXPECT_FALSE(problem.structures.empty());
  EXPECT_EQ(report.messages, 2U * CareDatabase::kMessages - lost);
}

TEST(Verify, ADamagedTableFileIsFoundIfAllIsRead) {
  const CareDatabase database;
  CareDatabase::Flip(database.Tables(0).front());
  const Verification report = VerifyOk(database.path());
  EXPECT_FALSE(report.problems.empty());
  for (const Problem& problem : report.problems) EXPECT_EQ(problem.shard, 0U) << problem.what;
}

TEST(Verify, MoreMessagesThanWereWrittenAreAProblem) {
  const CareDatabase database;
  const SlabId slab{0, RetentionClassId{0}, Generation{1}};
  meta::SlabCounters counters;
  counters.Count(7, 0, 5'000, 100);
  database.PutRecord(0, meta::CountersKey(slab), meta::Encode(counters));
  const Problem problem =
      TheProblem(VerifyOk(database.path(), /*deep=*/false), "by its counters 7 were written");
  EXPECT_EQ(problem.slab, slab);
}

TEST(Verify, ADamagedSampleOfTopicsIsAProblem) {
  const CareDatabase database;
  const SlabId slab{1, RetentionClassId{0}, Generation{1}};
  database.PutRecord(1, meta::SampleKey(slab, Serial{2}), "damaged");
  EXPECT_EQ(TheProblem(VerifyOk(database.path()), "").slab, slab);
}

TEST(Verify, WhatAJobHasStagedIsCheckedUntilItIsApplied) {
  const CareDatabase database;
  JobIntent intent;
  intent.database = FindDatabase(database.path())->descriptor.id;
  intent.job = intent.sequence = "j";
  intent.files = {Stage(database.path(), "j", {{TopicIn(0, 2), 5, "x"}})};
  intent.shards = {0};
  ASSERT_TRUE(WriteIntent(database.path(), &intent).ok());
  EXPECT_TRUE(VerifyOk(database.path()).problems.empty());
  const std::string staged = JobDirectory(database.path(), "j") + "/" + intent.files[0];
  CareDatabase::Flip(staged);
  TheProblem(VerifyOk(database.path()), staged);
  fs::remove(staged);
  TheProblem(VerifyOk(database.path()), staged);
  ASSERT_TRUE(WriteOutcome(database.path(), intent, 0, {Serial{9}, false}).ok());
  EXPECT_TRUE(VerifyOk(database.path()).problems.empty());
}

TEST(Verify, ADamagedIntentIsAProblem) {
  const CareDatabase database;
  const std::string intent = JobsDirectory(database.path()) + "/00000000000000000007-j.intent";
  ASSERT_TRUE(MakeDirectory(JobsDirectory(database.path())).ok());
  ASSERT_TRUE(WriteFileAtomically(intent, "damaged").ok());
  const Verification report = VerifyOk(database.path());
  TheProblem(report, intent);
  EXPECT_EQ(report.messages, 2U * CareDatabase::kMessages) << "the rest is checked";
}

TEST(Verify, ProblemsComeByShard) {
  const CareDatabase database;
  database.DamagePage(1, 3);
  database.DamagePage(0, 2);
  database.DamagePage(1, 1);
  const Verification report = VerifyOk(database.path());
  ASSERT_EQ(report.problems.size(), 3U);
  EXPECT_EQ(report.problems[0].shard, 0U);
  EXPECT_NE(report.problems[1].what.find("page 1"), std::string::npos);
  EXPECT_NE(report.problems[2].what.find("page 3"), std::string::npos);
}

TEST(Verify, TellsItsProgressUntilAllIsDone) {
  const CareDatabase database;
  std::uint64_t last_done = 0;
  std::uint64_t last_total = 0;
  VerifyOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    EXPECT_GE(done, last_done);
    last_done = done;
    last_total = total;
  };
  ASSERT_TRUE(VerifyDatabase(database.path(), options).ok());
  EXPECT_EQ(last_done, 2U * CareDatabase::kMessages);
  EXPECT_EQ(last_total, 2U * CareDatabase::kMessages);
}

TEST(Verify, MayBeInterrupted) {
  const CareDatabase database;
  // A small database may be checked before the question is asked for the first time.
  const InterruptCheck interrupted = [] { return true; };
  while (VerifyDatabase(database.path(), {}, interrupted).status().code() != Code::kInterrupted) {
  }
}

}  // namespace
}  // namespace topicdb
