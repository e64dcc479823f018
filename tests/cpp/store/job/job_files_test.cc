#include "store/job/job_files.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes/checked_record.h"
#include "base/clock.h"
#include "base/file/files.h"
#include "every_damage.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

JobIntent Example() {
  JobIntent intent;
  intent.database = {1, 2, 3};
  intent.job = "job-7";
  intent.sequence = "query";
  intent.number = 7;
  intent.shards = {0, 2, 900};
  intent.files = {"a.staged", "b.staged"};
  intent.messages = 12'345;
  intent.malformed = 6;
  return intent;
}

// The directory of a database, in which jobs are committed.
class JobFiles : public ::testing::Test {
 protected:
  // Commits a job that has messages for shards 0 and 2, and a file that it has staged.
  JobIntent Commit(const std::string& job) {
    const auto directory = MakeJobDirectory(path_, job);
    EXPECT_TRUE(directory.ok()) << directory.status().message();
    EXPECT_TRUE(WriteFileAtomically(*directory + "/a.staged", "staged").ok());
    JobIntent intent = Example();
    intent.job = job;
    intent.shards = {0, 2};
    EXPECT_TRUE(WriteIntent(path_, &intent).ok());
    return intent;
  }
  void Apply(const JobIntent& intent) {
    for (const std::uint32_t shard : intent.shards) {
      ASSERT_TRUE(WriteOutcome(path_, intent, shard, {Serial{5 + shard}, false}).ok());
    }
  }
  std::vector<std::string> Names() const { return ListDirectory(JobsDirectory(path_)).value(); }
  // Sweeps at a time that is this far from now.
  void Sweep(std::chrono::microseconds later) {
    const Status swept = SweepJobs(path_, ReadWallClock() + later);
    ASSERT_TRUE(swept.ok()) << swept.message();
  }
  std::string IntentPath(const JobIntent& intent) const {
    return JobsDirectory(path_) + "/" + intent.name + ".intent";
  }
  std::string OutcomePath(const JobIntent& intent, const std::string& shard) const {
    return JobsDirectory(path_) + "/" + intent.name + ".shard-" + shard;
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "";
};

TEST(JobNames, AreLettersDigitsAndAFewSigns) {
  for (const std::string& name :
       {std::string("a"), std::string("Job-7_b.c"), std::string(128, 'x'), std::string("0")}) {
    EXPECT_TRUE(CheckJobName(name).ok()) << name;
  }
  for (const std::string& name :
       {std::string(), std::string(129, 'x'), std::string(".hidden"), std::string(".."),
        std::string("a/b"), std::string("a b"), std::string("\xc3\xa9"), std::string("a\0b", 3)}) {
    EXPECT_EQ(CheckJobName(name).code(), Code::kInvalidArgument) << name;
  }
}

TEST(JobNames, AreNoNamesOfOtherFiles) {
  for (const char* name : {"a.intent", "a.intent.b", "a.shard-0001"}) {
    EXPECT_EQ(CheckJobName(name).code(), Code::kInvalidArgument) << name;
  }
}

TEST(JobIntent, RoundTrips) {
  const JobIntent intent = Example();
  const auto decoded = DecodeIntent(EncodeIntent(intent), "x.intent");
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->database, intent.database);
  EXPECT_EQ(decoded->job, intent.job);
  EXPECT_EQ(decoded->sequence, intent.sequence);
  EXPECT_EQ(decoded->number, intent.number);
  EXPECT_EQ(decoded->shards, intent.shards);
  EXPECT_EQ(decoded->files, intent.files);
  EXPECT_EQ(decoded->messages, intent.messages);
  EXPECT_EQ(decoded->malformed, intent.malformed);
  EXPECT_EQ(decoded->name, "") << "the name of its file is not in it";
}

TEST(JobIntent, EveryDamageIsAnErrorThatNamesTheFile) {
  ForEachDamage(EncodeIntent(Example()), [](const std::string& damaged) {
    const auto decoded = DecodeIntent(damaged, "/db/jobs/x.intent");
    EXPECT_EQ(decoded.status().code(), Code::kCorruption);
    EXPECT_TRUE(decoded.status().message().starts_with("/db/jobs/x.intent is damaged"))
        << decoded.status().message();
  });
}

TEST(JobIntent, OneThatLeadsOutOfItsDirectoryIsDamaged) {
  JobIntent intent = Example();
  intent.job = "../../elsewhere";
  EXPECT_EQ(DecodeIntent(EncodeIntent(intent), "x").status().code(), Code::kCorruption);
}

TEST(JobIntent, MoreBytesThanItHasAreDamage) {
  std::string bytes = EncodeIntent(Example());
  bytes.resize(bytes.size() - 4);
  EXPECT_TRUE(DecodeIntent(CloseRecord(bytes), "x").ok());
  EXPECT_EQ(DecodeIntent(CloseRecord(bytes + "more"), "x").status().code(), Code::kCorruption);
}

TEST(ShardOutcome, RoundTripsAndEveryDamageIsRefused) {
  for (const bool repeated : {false, true}) {
    const std::string bytes = EncodeOutcome({Serial{1'000'000}, repeated});
    ShardOutcome outcome;
    ASSERT_TRUE(DecodeOutcome(bytes, &outcome));
    EXPECT_EQ(outcome.serial, Serial{1'000'000});
    EXPECT_EQ(outcome.repeated, repeated);
    ForEachDamage(
        bytes, [&](const std::string& damaged) { EXPECT_FALSE(DecodeOutcome(damaged, &outcome)); });
    std::string other = bytes.substr(0, bytes.size() - 4);
    other.back() = 3;  // neither of the two kinds
    EXPECT_FALSE(DecodeOutcome(CloseRecord(other), &outcome));
  }
}

TEST_F(JobFiles, WithoutADirectoryOfJobsThereAreNone) {
  EXPECT_TRUE(ListIntents(path_).value().empty());
  Sweep(24h);
  EXPECT_FALSE(Exists(JobsDirectory(path_)));
}

TEST_F(JobFiles, ADirectoryMayBeMadeTwice) {
  const std::string made = MakeJobDirectory(path_, "j").value();
  EXPECT_EQ(made, JobDirectory(path_, "j"));
  ASSERT_TRUE(WriteFileAtomically(made + "/file", "").ok());
  EXPECT_EQ(MakeJobDirectory(path_, "j").value(), made);
  EXPECT_TRUE(Exists(made + "/file"));
}

TEST_F(JobFiles, AnIntentTellsWhenItWasCommitted) {
  const WallTime before = ReadWallClock();
  const JobIntent intent = Commit("j");
  EXPECT_GE(CommittedAt(intent), before);
  EXPECT_LE(CommittedAt(intent), ReadWallClock());
  EXPECT_TRUE(intent.name.ends_with("-j"));
  EXPECT_TRUE(HasIntent(path_, intent));
  EXPECT_EQ(CommittedAt(JobIntent()), WallTime());
}

TEST_F(JobFiles, IntentsAreListedInTheOrderOfTheirTimes) {
  const JobIntent late = Commit("b");
  const JobIntent early = Commit("a");
  ASSERT_TRUE(
      Rename(IntentPath(early), JobsDirectory(path_) + "/00000000000000000007-a.intent").ok());
  ASSERT_TRUE(WriteFileAtomically(JobsDirectory(path_) + "/another file", "").ok());
  const auto intents = ListIntents(path_).value();
  ASSERT_EQ(intents.size(), 2U);
  EXPECT_EQ(intents[0].job, "a");
  EXPECT_EQ(CommittedAt(intents[0]), WallTime(7us));
  EXPECT_EQ(intents[1].name, late.name);
}

TEST_F(JobFiles, ADamagedIntentIsNotPassedOver) {
  Commit("a");
  const JobIntent damaged = Commit("b");
  ASSERT_TRUE(WriteFileAtomically(IntentPath(damaged), "damaged").ok());
  const auto intents = ListIntents(path_);
  EXPECT_EQ(intents.status().code(), Code::kCorruption);
  EXPECT_NE(intents.status().message().find(damaged.name), std::string::npos);
  EXPECT_EQ(SweepJobs(path_, ReadWallClock()).code(), Code::kCorruption);
}

TEST_F(JobFiles, AnIntentIsAppliedWhenEachOfItsShardsHasAnOutcome) {
  const JobIntent intent = Commit("j");
  std::map<std::uint32_t, ShardOutcome> outcomes;
  EXPECT_FALSE(IsApplied(path_, intent, &outcomes).value());
  EXPECT_TRUE(outcomes.empty());
  ASSERT_TRUE(WriteOutcome(path_, intent, 2, {Serial{9}, true}).ok());
  ASSERT_TRUE(WriteOutcome(path_, intent, 1, {Serial{9}, true}).ok());
  EXPECT_FALSE(IsApplied(path_, intent, &outcomes).value()) << "shard 1 has no messages of it";
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[2].serial, Serial{9});
  EXPECT_TRUE(outcomes[2].repeated);
  ASSERT_TRUE(WriteOutcome(path_, intent, 0, {Serial{3}, false}).ok());
  EXPECT_TRUE(IsApplied(path_, intent, &outcomes).value());
}

// The shard then finds by itself that it has applied the job.
TEST_F(JobFiles, ADamagedOutcomeIsAsGoodAsNone) {
  const JobIntent intent = Commit("j");
  EXPECT_EQ(FindOutcome(path_, intent, 2).value().has_value(), false);
  ASSERT_TRUE(WriteOutcome(path_, intent, 2, {Serial{9}, false}).ok());
  EXPECT_EQ(FindOutcome(path_, intent, 2).value().value().serial, Serial{9});
  ASSERT_TRUE(WriteFileAtomically(OutcomePath(intent, "0002"), "damaged").ok());
  EXPECT_EQ(FindOutcome(path_, intent, 2).value().has_value(), false);
}

TEST_F(JobFiles, RemovesWhatAnAppliedJobHasLeft) {
  const JobIntent other = Commit("other");
  const JobIntent intent = Commit("j");
  Apply(intent);
  ASSERT_TRUE(RemoveApplied(path_, intent).ok());
  EXPECT_FALSE(HasIntent(path_, intent));
  EXPECT_EQ(Names(), (std::vector<std::string>{other.name + ".intent", "other"}));
  EXPECT_TRUE(RemoveApplied(path_, intent).ok()) << "it may be done again";
}

TEST_F(JobFiles, WhatIsStagedStaysWhileTheJobHasAnotherIntent) {
  const JobIntent first = Commit("j");
  JobIntent second = Commit("j");
  while (second.name == first.name) second = Commit("j");
  Apply(first);
  ASSERT_TRUE(RemoveApplied(path_, first).ok());
  EXPECT_TRUE(Exists(JobDirectory(path_, "j") + "/a.staged"));
  EXPECT_TRUE(HasIntent(path_, second));
  ASSERT_TRUE(RemoveApplied(path_, second).ok());
  EXPECT_TRUE(Names().empty());
}

TEST_F(JobFiles, AnAppliedJobIsSweptAMinuteLater) {
  const JobIntent applied = Commit("applied");
  const JobIntent waiting = Commit("waiting");
  Apply(applied);
  ASSERT_TRUE(WriteOutcome(path_, waiting, 0, {Serial{1}, false}).ok());
  Sweep(0s);
  EXPECT_TRUE(HasIntent(path_, applied)) << "whoever committed it may still want the outcomes";
  Sweep(90s);
  EXPECT_FALSE(HasIntent(path_, applied));
  EXPECT_FALSE(Exists(JobDirectory(path_, "applied")));
  Sweep(1'000h);
  EXPECT_EQ(Names(), (std::vector<std::string>{waiting.name + ".intent",
                                               waiting.name + ".shard-0000", "waiting"}));
}

TEST_F(JobFiles, WhatWasStagedAndNotCommittedIsSweptHoursLater) {
  const std::string old = MakeJobDirectory(path_, "old").value();
  const std::string used = MakeJobDirectory(path_, "used").value();
  ASSERT_TRUE(WriteFileAtomically(used + "/a.pages", "").ok());
  fs::last_write_time(used + "/a.pages", fs::last_write_time(used) + 4h);
  Sweep(5h);
  EXPECT_TRUE(Exists(old));
  Sweep(7h);
  EXPECT_FALSE(Exists(old));
  EXPECT_TRUE(Exists(used)) << "a task has written to it since";
  Sweep(11h);
  EXPECT_FALSE(Exists(used));
}

TEST_F(JobFiles, OutcomesWithoutTheirIntentAreSwept) {
  const JobIntent intent = Commit("j");
  Apply(intent);
  ASSERT_TRUE(RemoveFile(IntentPath(intent)).ok());
  const JobIntent other = Commit("other");
  ASSERT_TRUE(WriteOutcome(path_, other, 0, {Serial{1}, false}).ok());
  Sweep(0s);
  EXPECT_EQ(Names(), (std::vector<std::string>{other.name + ".intent", other.name + ".shard-0000",
                                               "j", "other"}));
}

}  // namespace
}  // namespace topicdb
