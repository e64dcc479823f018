#include "store/shard/commit/shard_jobs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "store/job/stage.h"
#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kNow{1'800'000'000s};

meta::JobSpan Span(std::uint64_t number, WallTime committed_at = kNow) {
  return {number, Serial{10 * number}, Serial{10 * number + 1}, committed_at, {0, 1}};
}

// A shard, and jobs that stage messages for it.
class ShardJobsTest : public ::testing::Test {
 protected:
  std::string path() const { return shard_.state.environment->database_path; }
  StagedMessages Staged(const std::string& job) const {
    return StagedIn(path(), job, Stage(path(), job, {{"a", 1, job}, {"b", 2, job}}));
  }
  std::unique_ptr<ShardCommit> Commit(const StagedMessages& staged) {
    auto commit = std::make_unique<ShardCommit>();
    commit->staged = &staged;
    shard_.committer.Commit(commit.get());
    commit->staged = nullptr;
    return commit;
  }
  Result<std::uint64_t> TakePages(const StagedMessages& staged) {
    const MutexLock lock(shard_.state.mutex);
    return shard_.jobs.TakePages(staged);
  }
  // Returns how many pages the current slab has, installed or not.
  std::size_t CountPages() const {
    std::size_t count = 0;
    const std::unique_ptr<rocksdb::Iterator> pages(
        shard_.state.db->NewIterator(rocksdb::ReadOptions(), shard_.Current().families().sealed));
    for (pages->SeekToFirst(); pages->Valid(); pages->Next()) ++count;
    return count;
  }

  ShardParts shard_;
};

TEST(JobAfter, TheFirstJobOfASequenceHasNoneBefore) {
  StagedMessages staged;
  staged.sequence = "query";
  staged.malformed = 3;
  const meta::JobRecord record = JobAfter({{"another", {}}}, staged);
  EXPECT_TRUE(record.earlier.empty());
  EXPECT_EQ(record.malformed, 3U);
}

TEST(JobAfter, ALaterJobRemembersThoseBefore) {
  meta::JobRecords jobs;
  jobs["query"].last = Span(2);
  jobs["query"].earlier = {Span(1)};
  StagedMessages staged;
  staged.sequence = "query";
  EXPECT_EQ(JobAfter(jobs, staged).earlier, (std::vector<meta::JobSpan>{Span(1), Span(2)}));
}

TEST(JobAfter, ForgetsTheOldestThatAllShardsHaveApplied) {
  meta::JobRecords jobs;
  StagedMessages staged;
  staged.sequence = "query";
  const auto earlier_after = [&](std::uint64_t applied) {
    jobs["query"].earlier.clear();
    for (std::uint64_t number = 1; number < applied; ++number) {
      jobs["query"].earlier.push_back(Span(number, kNow + std::chrono::seconds(number)));
    }
    jobs["query"].last = Span(applied, kNow + std::chrono::seconds(applied));
    return JobAfter(jobs, staged).earlier;
  };
  staged.pending_since = kNow + 1'000'000s;  // no shard is behind
  EXPECT_EQ(earlier_after(meta::kJobSpansMin).size(), meta::kJobSpansMin);
  EXPECT_EQ(earlier_after(100).size(), meta::kJobSpansMin);
  EXPECT_EQ(earlier_after(100).back().number, 100U);
  staged.pending_since = kNow + 31s;  // some shard has yet to apply job 31
  EXPECT_EQ(earlier_after(100).front().number, 31U);
  staged.pending_since = kNow;  // some shard is behind for ever
  EXPECT_EQ(earlier_after(100).size(), 100U);
  EXPECT_EQ(earlier_after(meta::kJobSpansMax + 5).size(), meta::kJobSpansMax);
}

TEST(FindApplied, ALaterJobOfTheSequenceCountsToo) {
  meta::JobRecords jobs;
  jobs["query"].last = Span(7);
  EXPECT_EQ(FindApplied(jobs, "query", 7), &jobs["query"].last);
  EXPECT_EQ(FindApplied(jobs, "query", 6), &jobs["query"].last);
  EXPECT_EQ(FindApplied(jobs, "query", 8), nullptr);
  EXPECT_EQ(FindApplied(jobs, "other", 1), nullptr);
}

TEST_F(ShardJobsTest, AJobIsCommittedOnce) {
  const StagedMessages staged = Staged("j");
  const auto first = Commit(staged);
  ASSERT_TRUE(first->status.ok()) << first->status.message();
  EXPECT_FALSE(first->repeated);
  EXPECT_EQ(shard_.Get("a", 1), "j");
  const auto again = Commit(staged);
  ASSERT_TRUE(again->status.ok()) << again->status.message();
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->serial, first->serial);
  const std::vector<JobInfo> infos = shard_.jobs.Infos();
  ASSERT_EQ(infos.size(), 1U);
  EXPECT_EQ(infos[0].sequence, "j");
  EXPECT_EQ(infos[0].messages, 2U);
  EXPECT_EQ(infos[0].last_serial, first->serial);
}

TEST_F(ShardJobsTest, PagesAreTakenOverOnceThoughATryWasCutShort) {
  const StagedMessages staged = Staged("j");
  EXPECT_EQ(TakePages(staged).value(), 1U);
  const std::size_t pages = CountPages();
  EXPECT_GT(pages, 0U);
  EXPECT_EQ(shard_.Get("a", 1), std::nullopt) << "nobody sees them yet";
  std::filesystem::remove_all(staged.directory);
  EXPECT_EQ(TakePages(staged).value(), 1U);
  EXPECT_EQ(CountPages(), pages);
  ASSERT_TRUE(Commit(staged)->status.ok());
  EXPECT_EQ(shard_.Get("b", 2), "j");
}

TEST_F(ShardJobsTest, PagesWhoseNumbersAreInUseAreRefused) {
  StagedMessages staged = Staged("j");
  ASSERT_TRUE(Commit(staged)->status.ok());
  staged.sequence = "another";
  const auto refused = Commit(staged);
  EXPECT_EQ(refused->status.code(), Code::kStorage);
  EXPECT_NE(refused->status.message().find("run the job again"), std::string::npos)
      << refused->status.message();
  EXPECT_EQ(shard_.jobs.Infos().size(), 1U);
}

TEST_F(ShardJobsTest, WhatCannotBeTakenOverIsCorruption) {
  StagedMessages foreign = Staged("foreign");
  foreign.parts[0].retention_class = RetentionClassId{7};
  EXPECT_EQ(TakePages(foreign).status().code(), Code::kCorruption);
  const StagedMessages cut = Staged("cut");
  std::filesystem::resize_file(cut.directory + "/" + cut.parts[0].pages_file, 10);
  EXPECT_EQ(TakePages(cut).status().code(), Code::kCorruption);
  StagedMessages malformed = Staged("malformed");
  malformed.parts[0].blocks.pop_back();
  EXPECT_EQ(TakePages(malformed).status().code(), Code::kCorruption);
  EXPECT_EQ(CountPages(), 0U);
}

TEST_F(ShardJobsTest, PagesThatWereNotCommittedAreRemoved) {
  const StagedMessages committed = Staged("committed");
  ASSERT_TRUE(Commit(committed)->status.ok());
  const std::size_t pages = CountPages();
  ASSERT_TRUE(TakePages(Staged("not")).ok());
  EXPECT_GT(CountPages(), pages);
  ASSERT_TRUE(shard_.jobs.RemoveUnplaced().ok());
  EXPECT_EQ(CountPages(), pages);
  EXPECT_EQ(shard_.Get("a", 1), "committed");
}

TEST_F(ShardJobsTest, JobsWithoutASequenceAreForgottenAfterAWeek) {
  StagedMessages old = Staged("old");
  old.committed_at -= meta::kJobMemory + 1h;
  StagedMessages young = Staged("young");
  young.committed_at -= meta::kJobMemory - 1h;
  StagedMessages numbered = Staged("numbered");
  numbered.number = 7;
  numbered.committed_at -= 10 * meta::kJobMemory;
  for (const StagedMessages* staged : {&old, &young, &numbered}) {
    const auto commit = Commit(*staged);
    ASSERT_TRUE(commit->status.ok()) << commit->status.message();
  }
  ASSERT_TRUE(shard_.jobs.ForgetOld().ok());
  std::vector<std::string> left;
  for (const JobInfo& job : shard_.jobs.Infos()) left.push_back(job.sequence);
  EXPECT_EQ(left, (std::vector<std::string>{"numbered", "young"}));
  std::string record;
  EXPECT_TRUE(shard_.state.db->Get({}, meta::JobKey("old"), &record).IsNotFound());
  EXPECT_TRUE(shard_.state.db->Get({}, meta::JobKey("young"), &record).ok());
}

}  // namespace
}  // namespace topicdb
