#include "store/database/database_jobs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/file/files.h"
#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::uint32_t>;

// A database of two shards, and jobs that were committed and not applied.
class DatabaseJobsTest : public ::testing::Test {
 protected:
  DatabaseJobsTest() { const DatabaseParts made(path_, WithShards(2)); }

  static OpenOptions Only(const Numbers& shards) {
    OpenOptions options;
    options.only_shards = shards;
    return options;
  }
  // Commits a job with a message for each of these shards.
  JobIntent Commit(const std::string& job, const Numbers& shards, std::uint64_t number = 0) {
    std::vector<std::string> topics;
    for (const std::uint32_t shard : shards) topics.push_back(TopicIn(shard, 2));
    std::vector<MessageView> messages;
    for (const std::string& topic : topics) messages.push_back({topic, 5, job});
    JobIntent intent;
    intent.database = FindDatabase(path_)->descriptor.id;
    intent.job = job;
    intent.sequence = number == 0 ? job : "query";
    intent.number = number;
    intent.files = {Stage(path_, job, messages)};
    intent.shards = shards;
    EXPECT_TRUE(WriteIntent(path_, &intent).ok());
    return intent;
  }
  std::optional<ShardOutcome> OutcomeOf(const JobIntent& intent, std::uint32_t shard) const {
    return FindOutcome(path_, intent, shard).value();
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
};

TEST_F(DatabaseJobsTest, AppliesJobsInTheirOrderAndWritesTheOutcomes) {
  const JobIntent first = Commit("first", {0, 1});
  const JobIntent second = Commit("second", {1});
  DatabaseParts database(path_);
  ASSERT_TRUE(database.jobs.Apply().ok());
  EXPECT_EQ(database.CountMessages(), 3U);
  EXPECT_EQ(OutcomeOf(first, 0)->serial, Serial{1});
  EXPECT_EQ(OutcomeOf(first, 1)->serial, Serial{1});
  EXPECT_EQ(OutcomeOf(second, 1)->serial, Serial{2});
  EXPECT_FALSE(OutcomeOf(second, 1)->repeated);
  EXPECT_EQ(OutcomeOf(second, 0).has_value(), false) << "it has nothing of the job";
  EXPECT_TRUE(HasIntent(path_, first)) << "whoever has committed the job removes it";
}

TEST_F(DatabaseJobsTest, AppliesAJobOnce) {
  Commit("j", {0, 1});
  DatabaseParts database(path_);
  ASSERT_TRUE(database.jobs.Apply().ok());
  ASSERT_TRUE(database.jobs.Apply().ok());
  EXPECT_EQ(database.CountMessages(), 2U);
  EXPECT_EQ(database.shard(0)->Stats().serial, Serial{1});
}

TEST_F(DatabaseJobsTest, ShardsThatAreNotOpenHereWaitForAnother) {
  const JobIntent intent = Commit("j", {0, 1});
  DatabaseParts some(path_, Only({1}));
  ASSERT_TRUE(some.jobs.Apply().ok());
  EXPECT_EQ(OutcomeOf(intent, 0).has_value(), false);
  EXPECT_EQ(OutcomeOf(intent, 1)->serial, Serial{1});
  DatabaseParts rest(path_, Only({0}));
  ASSERT_TRUE(rest.jobs.Apply().ok());
  EXPECT_EQ(OutcomeOf(intent, 0)->serial, Serial{1});
}

TEST_F(DatabaseJobsTest, AnEarlierJobOfASequenceIsNotAppliedAfterALaterOne) {
  const JobIntent later = Commit("later", {0}, 7);
  const JobIntent earlier = Commit("earlier", {0}, 6);
  DatabaseParts database(path_);
  ASSERT_TRUE(database.jobs.Apply().ok());
  EXPECT_EQ(database.CountMessages(), 1U);
  EXPECT_TRUE(OutcomeOf(earlier, 0)->repeated);
  EXPECT_EQ(OutcomeOf(earlier, 0)->serial, OutcomeOf(later, 0)->serial);
}

// Two processes may commit a job, and one may find the files of the other gone.
TEST_F(DatabaseJobsTest, AJobThatIsAppliedNeedsNoFiles) {
  const JobIntent first = Commit("j", {0});
  DatabaseParts database(path_);
  ASSERT_TRUE(database.jobs.Apply().ok());
  fs::remove_all(JobDirectory(path_, "j"));
  JobIntent second = first;
  ASSERT_TRUE(WriteIntent(path_, &second).ok());
  ASSERT_TRUE(database.jobs.Apply().ok());
  EXPECT_TRUE(OutcomeOf(second, 0)->repeated);
  EXPECT_EQ(OutcomeOf(second, 0)->serial, Serial{1});
}

TEST_F(DatabaseJobsTest, AnIntentOfAnotherDatabaseIsRefused) {
  JobIntent intent = Commit("j", {0});
  ASSERT_TRUE(RemoveFile(JobsDirectory(path_) + "/" + intent.name + ".intent").ok());
  intent.database[0] = static_cast<std::uint8_t>(intent.database[0] + 1);
  ASSERT_TRUE(WriteIntent(path_, &intent).ok());
  DatabaseParts database(path_);
  const Status applied = database.jobs.Apply();
  EXPECT_EQ(applied.code(), Code::kCorruption);
  EXPECT_NE(applied.message().find(intent.name + ".intent belongs to another database"),
            std::string::npos)
      << applied.message();
  EXPECT_EQ(database.CountMessages(), 0U);
}

TEST_F(DatabaseJobsTest, WithoutItsStagedFileAJobIsNotApplied) {
  const JobIntent intent = Commit("j", {0});
  fs::resize_file(JobDirectory(path_, "j") + "/" + intent.files[0], 20);
  DatabaseParts database(path_);
  EXPECT_EQ(database.jobs.Apply().code(), Code::kCorruption);
  fs::remove(JobDirectory(path_, "j") + "/" + intent.files[0]);
  EXPECT_EQ(database.jobs.Apply().code(), Code::kNotFound);
  EXPECT_EQ(database.CountMessages(), 0U);
  EXPECT_EQ(OutcomeOf(intent, 0).has_value(), false);
}

TEST_F(DatabaseJobsTest, StartAppliesJobsAndClearsAway) {
  const JobIntent intent = Commit("j", {0});
  const std::string stray = JobsDirectory(path_) + "/00000000000000000007-gone.shard-0000";
  ASSERT_TRUE(WriteFileAtomically(stray, "").ok());
  DatabaseParts database(path_);
  ASSERT_TRUE(database.jobs.Start().ok());
  EXPECT_EQ(OutcomeOf(intent, 0)->serial, Serial{1});
  EXPECT_FALSE(fs::exists(stray));
}

TEST_F(DatabaseJobsTest, StartMakesTheDirectoryOfJobs) {
  DatabaseParts database(path_);
  EXPECT_FALSE(fs::exists(JobsDirectory(path_)));
  ASSERT_TRUE(database.jobs.Start().ok());
  EXPECT_TRUE(fs::is_directory(JobsDirectory(path_)));
}

TEST_F(DatabaseJobsTest, WhatIsCommittedAfterTheStartIsAppliedByItsThread) {
  DatabaseParts database(path_);
  ASSERT_TRUE(database.jobs.Start().ok());
  const JobIntent intent = Commit("j", {0, 1});
  while (!OutcomeOf(intent, 0).has_value() || !OutcomeOf(intent, 1).has_value()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(database.CountMessages(), 2U);
}

TEST_F(DatabaseJobsTest, NoJobIsAppliedWhileItsMutexIsHeld) {
  DatabaseParts database(path_);
  ASSERT_TRUE(database.jobs.Start().ok());
  JobIntent intent;
  {
    const MutexLock lock(database.jobs.mutex());
    intent = Commit("j", {0});
    EXPECT_EQ(database.CountMessages(), 0U);
    EXPECT_EQ(OutcomeOf(intent, 0).has_value(), false);
  }
  ASSERT_TRUE(database.jobs.Apply().ok());
  EXPECT_EQ(OutcomeOf(intent, 0)->serial, Serial{1});
}

}  // namespace
}  // namespace topicdb
