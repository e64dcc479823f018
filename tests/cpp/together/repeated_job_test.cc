// A job that is committed again: whatever has become of its files meanwhile, and whoever else
// commits it at the same time.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file/files.h"
#include "store/job/job_files.h"
#include "store/job/stage.h"
#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/job.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::microseconds kPatience = std::chrono::minutes(1);
constexpr int kTopics = 12;
constexpr int kMessages = 5;  // of each topic, which one task has staged

// A database with three shards, and a job with or without a sequence for it. Two tasks have staged
// messages of every shard.
class RepeatedJob : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    OpenOptions options;
    options.schema.shards = 3;
    Open(options);
    commit_ = StagedJob("j", GetParam());
  }

  void Open(OpenOptions options = {}) const {
    const auto database = Database::Open(path_, options);
    ASSERT_TRUE(database.ok()) << database.status().message();
    ASSERT_TRUE((*database)->Close().ok());
  }

  JobCommit StagedJob(const std::string& job, std::uint64_t number) const {
    JobCommit commit{job, {}, number > 0 ? "query" : "", number};
    for (int task = 0; task < 2; ++task) {
      std::vector<std::string> topics;
      for (int i = 0; i < kTopics; ++i) topics.push_back("m/" + std::to_string(i));
      std::vector<MessageView> messages;
      for (const std::string& topic : topics) {
        for (int i = 0; i < kMessages; ++i) messages.push_back({topic, 10 * i + task, "v"});
      }
      commit.files.push_back(Stage(path_, job, messages));
    }
    return commit;
  }

  // Commits the job while another owner has shard 1, and applies it afterwards. Nobody has removed
  // its files then.
  void CommitAndApply() const {
    {
      const auto other = FileLock::Acquire(path_ + "/shards/0001.lock").value();
      JobCommit impatient = commit_;
      impatient.timeout = std::chrono::microseconds(0);
      const auto receipt = CommitJob(path_, impatient);
      ASSERT_TRUE(receipt.ok()) << receipt.status().message();
      ASSERT_EQ(receipt->pending, std::vector<std::uint32_t>{1});
      ASSERT_FALSE(receipt->repeated);
    }
    Open();
  }

  void ExpectRepeated(const Result<JobReceipt>& receipt, const std::string& when) const {
    ASSERT_TRUE(receipt.ok()) << when << ": " << receipt.status().message();
    EXPECT_TRUE(receipt->repeated) << when;
    EXPECT_EQ(receipt->messages, kAll) << when;
    EXPECT_TRUE(receipt->pending.empty()) << when;
    EXPECT_EQ(receipt->serials, Serials()) << when;
    EXPECT_EQ(CountMessages(), kAll) << when;
  }

  // Returns the last serial of the job in each shard, as the shards remember it.
  std::vector<std::pair<std::uint32_t, Serial>> Serials() const {
    OpenOptions reading;
    reading.read_only = true;
    const auto database = Database::Open(path_, reading).value();
    std::vector<std::pair<std::uint32_t, Serial>> serials;
    const auto jobs = database->Jobs();
    EXPECT_TRUE(jobs.ok()) << jobs.status().message();
    for (const JobInfo& job : *jobs) serials.emplace_back(job.shard, job.last_serial);
    return serials;
  }

  std::uint64_t CountMessages() const {
    OpenOptions reading;
    reading.read_only = true;
    const auto database = Database::Open(path_, reading).value();
    auto scan = database->NewScan(Filter::Parse("#").value(), {{}, ScanOrder::kTime, std::nullopt});
    EXPECT_TRUE(scan.ok()) << scan.status().message();
    std::uint64_t count = 0;
    while (const auto batch = scan.value()->Next({1'000, 1 << 20}).value()) count += batch->size();
    return count;
  }

  // Returns the steps of the removal of the files of the job: first what tasks have staged, in an
  // order, then their directory, the intent and the outcomes.
  std::vector<std::string> Removal(bool from_the_end) const {
    std::vector<std::string> steps = ListDirectory(path_ + "/jobs/j").value();
    for (std::string& name : steps) name.insert(0, "j/");
    if (from_the_end) std::reverse(steps.begin(), steps.end());
    steps.emplace_back("j");
    const std::vector<std::string> names = ListDirectory(path_ + "/jobs").value();
    for (const char* const end : {".intent", ".shard-0000", ".shard-0001", ".shard-0002"}) {
      for (const std::string& name : names) {
        if (name.ends_with(end)) steps.push_back(name);
      }
    }
    return steps;
  }

  const std::uint64_t kAll = 2 * kTopics * kMessages;
  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
  JobCommit commit_;
};

INSTANTIATE_TEST_SUITE_P(WithAndWithoutASequence, RepeatedJob, ::testing::Values(0, 7),
                         [](const auto& number) { return number.param ? "Numbered" : "Alone"; });

TEST_P(RepeatedJob, IsKnownAfterEachStepOfTheRemovalOfItsFiles) {
  ASSERT_NO_FATAL_FAILURE(CommitAndApply());
  fs::copy(path_ + "/jobs", directory_ / "whole", fs::copy_options::recursive);
  for (const bool from_the_end : {false, true}) {
    const std::vector<std::string> removal = Removal(from_the_end);
    ASSERT_GE(removal.size(),
              2U + 6U + 1U + 1U + 3U);  // staged, pages, directory, intent, outcomes
    for (std::size_t steps = 0; steps <= removal.size(); ++steps) {
      const std::string when = std::to_string(steps) + " of " + std::to_string(removal.size()) +
                               (from_the_end ? " steps from the end" : " steps");
      fs::remove_all(path_ + "/jobs");
      fs::copy(directory_ / "whole", path_ + "/jobs", fs::copy_options::recursive);
      for (std::size_t i = 0; i < steps; ++i) fs::remove(path_ + "/jobs/" + removal[i]);
      ASSERT_NO_FATAL_FAILURE(ExpectRepeated(CommitJob(path_, commit_), when));
      ASSERT_NO_FATAL_FAILURE(ExpectRepeated(CommitJob(path_, commit_), when + ", again"));
      EXPECT_FALSE(fs::exists(path_ + "/jobs/j")) << when;
      EXPECT_TRUE(ListIntents(path_)->empty()) << when;
    }
    fs::remove_all(path_ + "/jobs");
    fs::copy(directory_ / "whole", path_ + "/jobs", fs::copy_options::recursive);
  }
}

// A loss of power may keep the files that were removed first, and lose those removed last.
TEST_P(RepeatedJob, IsKnownIfOnlyItsIntentIsGone) {
  ASSERT_NO_FATAL_FAILURE(CommitAndApply());
  const std::vector<JobIntent> intents = ListIntents(path_).value();
  ASSERT_EQ(intents.size(), 1U);
  fs::remove(path_ + "/jobs/" + intents.front().name + ".intent");
  ASSERT_NO_FATAL_FAILURE(ExpectRepeated(CommitJob(path_, commit_), "without its intent"));
  EXPECT_TRUE(ListIntents(path_)->empty());
  for (const std::string& file : commit_.files) {
    ASSERT_TRUE(MakeJobDirectory(path_, "j").ok());
    ASSERT_TRUE(WriteFileAtomically(path_ + "/jobs/j/" + file, "torn").ok());
    ASSERT_NO_FATAL_FAILURE(ExpectRepeated(CommitJob(path_, commit_), file + " is damaged"));
    EXPECT_FALSE(fs::exists(path_ + "/jobs/j"));
  }
}

TEST_P(RepeatedJob, IsKnownWhileAShardHasYetToApplyIt) {
  const auto other = FileLock::Acquire(path_ + "/shards/0001.lock").value();
  commit_.timeout = std::chrono::microseconds(0);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto receipt = CommitJob(path_, commit_);
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
    EXPECT_EQ(receipt->repeated, attempt > 0);
    EXPECT_EQ(receipt->messages, kAll);
    EXPECT_EQ(receipt->pending, std::vector<std::uint32_t>{1});
    EXPECT_EQ(receipt->serials.size(), 2U);
    EXPECT_EQ(ListIntents(path_)->size(), 1U) << "a second intent would do nothing";
  }
}

TEST_P(RepeatedJob, AnotherAttemptOfABatchLeavesNothingBehind) {
  if (GetParam() == 0) GTEST_SKIP() << "a job without a sequence has one name";
  const JobCommit second = StagedJob("second", GetParam());
  {
    const auto other = FileLock::Acquire(path_ + "/shards/0001.lock").value();
    commit_.timeout = std::chrono::microseconds(0);
    EXPECT_FALSE(CommitJob(path_, commit_)->repeated);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectRepeated(CommitJob(path_, second), "another attempt"));
  EXPECT_TRUE(fs::is_empty(path_ + "/jobs"));
}

// A shard may have applied an intent without the time to write its outcome.
TEST_P(RepeatedJob, AJobThatACrashInterruptsIsNotCalledRepeated) {
  ASSERT_NO_FATAL_FAILURE(CommitAndApply());
  const std::vector<JobIntent> intents = ListIntents(path_).value();
  ASSERT_EQ(intents.size(), 1U);
  fs::remove(path_ + "/jobs/" + intents.front().name + ".shard-0002");
  Open();
  const auto outcome = FindOutcome(path_, intents.front(), 2).value();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_FALSE(outcome->repeated);
}

// Another process may check what is staged, to commit the job as well, while this one has applied
// it.
TEST_P(RepeatedJob, NothingIsRemovedWhileAnotherProcessLooksAtIt) {
  auto other = FileLock::Acquire(path_ + "/shards/0001.lock").value();
  Result<JobReceipt> receipt = Status(Code::kClosed, "not yet");
  std::thread committer([&] { receipt = CommitJob(path_, commit_); });
  while (ListIntents(path_)->empty()) std::this_thread::yield();
  auto looks = LockJobs(path_, kPatience).value();
  other.reset();  // the committer applies the job now
  committer.join();
  ASSERT_TRUE(receipt.ok()) << receipt.status().message();
  EXPECT_FALSE(receipt->repeated);
  EXPECT_TRUE(receipt->pending.empty());
  for (const std::string& file : commit_.files) {
    EXPECT_TRUE(fs::exists(path_ + "/jobs/j/" + file));
  }
  EXPECT_EQ(ListIntents(path_)->size(), 1U);
  looks.reset();
  ASSERT_NO_FATAL_FAILURE(ExpectRepeated(CommitJob(path_, commit_), "looked"));
  EXPECT_FALSE(fs::exists(path_ + "/jobs/j"));
}

TEST_P(RepeatedJob, ManyMayCommitItAtOnceAndOneStoresIt) {
  constexpr std::uint64_t kRounds = 10;
  constexpr int kCommitters = 4;
  const std::uint64_t before = CountMessages();
  ASSERT_EQ(before, 0U);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const std::string job = "round" + std::to_string(round);
    const JobCommit commit = StagedJob(job, GetParam() > 0 ? GetParam() + round : 0);
    std::vector<Result<JobReceipt>> receipts(kCommitters, Status(Code::kClosed, "not yet"));
    std::latch start(kCommitters);
    std::vector<std::thread> committers;
    for (Result<JobReceipt>& receipt : receipts) {
      committers.emplace_back([&] {
        start.arrive_and_wait();
        receipt = CommitJob(path_, commit);
      });
    }
    for (std::thread& committer : committers) committer.join();
    int stored = 0;
    for (const Result<JobReceipt>& receipt : receipts) {
      ASSERT_TRUE(receipt.ok()) << receipt.status().message();
      EXPECT_EQ(receipt->messages, kAll);
      EXPECT_TRUE(receipt->pending.empty());
      EXPECT_EQ(receipt->serials.size(), 3U);
      stored += receipt->repeated ? 0 : 1;
    }
    EXPECT_EQ(stored, 1) << job;
    EXPECT_FALSE(fs::exists(path_ + "/jobs/" + job));
    EXPECT_EQ(CountMessages(), round * kAll);
  }
}

TEST_P(RepeatedJob, AJobThatNobodyHasCommittedIsAnError) {
  fs::remove(path_ + "/jobs/j/" + commit_.files.back());
  EXPECT_EQ(CommitJob(path_, commit_).status().code(), Code::kNotFound);
  EXPECT_TRUE(fs::exists(path_ + "/jobs/j/" + commit_.files.front())) << "may still be restored";
  EXPECT_EQ(CountMessages(), 0U);
}

}  // namespace
}  // namespace topicdb
