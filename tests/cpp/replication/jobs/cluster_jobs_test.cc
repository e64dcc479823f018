// Tests of jobs in a cluster: three sites in one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "replication/cluster/sites.h"
#include "replication/jobs/cluster_jobs.h"
#include "replication/jobs/staged_upload.h"
#include "replication/replica/site_shards.h"
#include "replication/replicas.h"
#include "replication/state/cluster_state.h"
#include "store/job/stage.h"
#include "store/job/staged_records.h"

namespace topicdb::replication {
namespace {

constexpr std::size_t kMessages = 300;

class ClusterJobsTest : public SiteTest {
 protected:
  void StartWith(std::uint32_t shards) {
    open_.schema.shards = shards;
    StartAll();
  }
  // Stages messages of a task at a site: the topics `task`/0 to `task`/9. Returns the name of the
  // file.
  std::string StageAtSite(const std::string& name, const std::string& job, const std::string& task,
                          std::size_t messages = kMessages) {
    std::vector<std::string> topics;
    std::vector<MessageView> staged;
    for (std::size_t i = 0; i < messages; ++i)
      topics.push_back(task + "/" + std::to_string(i % 10));
    for (std::size_t i = 0; i < messages; ++i) {
      staged.push_back({topics[i], static_cast<std::int64_t>(i + 1), topics[i]});
    }
    return Stage(directory_ / name, job, staged);
  }
  // Does the same, and brings it to the shards.
  std::string ShareAt(const std::string& name, const std::string& job, const std::string& task,
                      std::size_t messages = kMessages) {
    std::string file = StageAtSite(name, job, task, messages);
    const Status shared = At(name).ShareStaged(job, file);
    EXPECT_TRUE(shared.ok()) << shared.message();
    return file;
  }
  static JobCommit CommitOf(const std::string& job, const std::vector<std::string>& files) {
    JobCommit commit;
    commit.job = job;
    commit.files = files;
    return commit;
  }
  // Commits a job at a site, and waits until all shards have applied it.
  JobReceipt CommitAt(const std::string& name, const JobCommit& commit) {
    const auto receipt = At(name).CommitJob(commit);
    EXPECT_TRUE(receipt.ok()) << receipt.status().message();
    if (!receipt.ok()) return {};
    EXPECT_TRUE(receipt->pending.empty());
    return *receipt;
  }
  std::size_t CountAt(const std::string& name, const std::string& filter) {
    const Status acknowledged = At(name).AwaitAcknowledged(kLong);
    EXPECT_TRUE(acknowledged.ok()) << acknowledged.message();
    const auto scan = At(name).NewScan(Filter::Parse(filter).value(), {}).value();
    std::size_t count = 0;
    for (;;) {
      const auto batch = scan->Next({});
      EXPECT_TRUE(batch.ok()) << batch.status().message();
      if (!batch.ok() || *batch == nullptr) return count;
      count += (*batch)->size();
    }
  }
  std::shared_ptr<Replica> ReplicaAt(const std::string& name, std::uint32_t shard) {
    return here_.at(name).site->shards()->Find(shard);
  }
  // Returns the name of the site that leads a shard.
  std::string LeaderOf(std::uint32_t shard) {
    for (;;) {
      for (const auto& [name, here] : here_) {
        if (here.database == nullptr) continue;
        if (ReplicaAt(name, shard)->state() == ReplicaState::kLeading) return name;
      }
      std::this_thread::yield();
    }
  }
  // Returns the name of a site that runs and does not lead a shard.
  std::string FollowerOf(std::uint32_t shard) {
    const std::string leader = LeaderOf(shard);
    for (const auto& [name, here] : here_) {
      if (here.database != nullptr && name != leader) return name;
    }
    return {};
  }
  // Waits until no job is under way any more, at any site.
  void AwaitNoJobs() {
    for (const auto& [name, here] : here_) {
      if (here.site != nullptr)
        AwaitState(name, [](const ClusterState& s) { return s.jobs.empty(); });
    }
  }
  // Returns what the column families of a shard have at a site.
  Digests DigestsAt(const std::string& name, std::uint32_t shard) {
    const auto held = ReplicaAt(name, shard)->shard();
    const OpenedShard opened = held->opened();
    rocks::FamilyHandles handles{opened.default_family.get()};
    for (const auto& [family, handle] : opened.families->all()) handles.push_back(handle->get());
    return DigestsOf(opened.db, handles);
  }
  // Waits until all sites have the same in all shards.
  void ExpectEqual() {
    for (std::uint32_t shard = 0; shard < open_.schema.shards; ++shard) {
      Await([&] {
        const Digests first = DigestsAt(here_.begin()->first, shard);
        return std::all_of(here_.begin(), here_.end(),
                           [&](const auto& one) { return DigestsAt(one.first, shard) == first; });
      });
    }
  }
  // Returns how many records are staged in all shards at a site.
  std::size_t StagedAt(const std::string& name) {
    std::size_t count = 0;
    for (std::uint32_t shard = 0; shard < open_.schema.shards; ++shard) {
      const auto view = ReplicaAt(name, shard)->shard()->view();
      const std::unique_ptr<rocksdb::Iterator> records(
          view->db()->NewIterator(rocksdb::ReadOptions()));
      for (records->Seek(StagedPrefix());
           records->Valid() && records->key().compare(StagedEnd()) < 0; records->Next()) {
        ++count;
      }
    }
    return count;
  }
  void StopSite(const std::string& name) { Stop(name); }
  void StartSite(const std::string& name) {
    Start(name);
    OpenAt({name});
  }
};

TEST_F(ClusterJobsTest, AJobIsCommittedAtAnySite) {
  StartWith(2);
  for (const char* name : {"a", "b", "c"}) {
    const std::string job = std::string("job-") + name;
    const std::string file = ShareAt(name, job, name);
    EXPECT_FALSE(std::filesystem::exists(directory_ / (std::string(name) + "/jobs/" + job)));
    EXPECT_EQ(CountAt(name, std::string(name) + "/#"), 0U);
    const JobReceipt receipt = CommitAt(name, CommitOf(job, {file}));
    EXPECT_EQ(receipt.messages, kMessages);
    EXPECT_FALSE(receipt.repeated);
    EXPECT_EQ(receipt.serials.size(), 2U);
    EXPECT_EQ(TakeAll(At(name), std::string(name) + "/#").size(), kMessages);
    for (const char* other : {"a", "b", "c"}) {
      EXPECT_EQ(CountAt(other, std::string(name) + "/#"), kMessages) << other;
    }
    AwaitNoJobs();
  }
  ExpectEqual();
}

TEST_F(ClusterJobsTest, TasksStageAtDifferentSites) {
  StartWith(2);
  std::vector<std::string> files;
  for (const char* name : {"a", "b", "c"}) files.push_back(ShareAt(name, "job", name));
  EXPECT_EQ(CommitAt("b", CommitOf("job", files)).messages, 3 * kMessages);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(CountAt(name, "#"), 3 * kMessages);
  AwaitNoJobs();
  ExpectEqual();
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(StagedAt(name), 0U) << name;
}

TEST_F(ClusterJobsTest, WhatIsStillInFilesIsSharedByTheCommit) {
  StartWith(1);
  const std::string file = StageAtSite("a", "job", "t");
  EXPECT_EQ(At("b").CommitJob(CommitOf("job", {file})).status().code(), Code::kNotFound);
  EXPECT_EQ(CommitAt("a", CommitOf("job", {file})).messages, kMessages);
  EXPECT_EQ(CountAt("b", "#"), kMessages);
}

TEST_F(ClusterJobsTest, ARepeatedCommitStoresNothing) {
  StartWith(2);
  const JobCommit commit = CommitOf("job", {ShareAt("a", "job", "t")});
  const JobReceipt first = CommitAt("a", commit);
  for (const char* name : {"a", "b", "c"}) {
    const JobReceipt again = CommitAt(name, commit);
    EXPECT_TRUE(again.repeated) << name;
    EXPECT_EQ(again.serials, first.serials) << name;
    EXPECT_EQ(again.messages, kMessages) << name;
  }
  AwaitNoJobs();
  EXPECT_TRUE(CommitAt("b", commit).repeated);
  EXPECT_EQ(CountAt("c", "#"), kMessages);
}

TEST_F(ClusterJobsTest, OneOfSeveralCommitsStoresAJob) {
  StartWith(2);
  JobCommit commit = CommitOf("job", {ShareAt("a", "job", "t")});
  std::vector<std::thread> threads;
  std::map<std::string, JobReceipt> receipts;
  for (const char* name : {"a", "b", "c"}) {
    threads.emplace_back(
        [&, &receipt = receipts[name], name] { receipt = CommitAt(name, commit); });
  }
  for (std::thread& thread : threads) thread.join();
  const auto stored = std::count_if(receipts.begin(), receipts.end(),
                                    [](const auto& one) { return !one.second.repeated; });
  EXPECT_EQ(stored, 1);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(CountAt(name, "#"), kMessages);
}

TEST_F(ClusterJobsTest, AnEarlierJobOfASequenceIsStoredOnce) {
  StartWith(1);
  for (std::uint64_t number = 1; number <= 3; ++number) {
    const std::string job = "batch-" + std::to_string(number);
    JobCommit commit = CommitOf(job, {ShareAt("a", job, job)});
    commit.sequence = "stream";
    commit.number = number;
    EXPECT_FALSE(CommitAt("b", commit).repeated);
  }
  // Another attempt of a batch has staged anew, under a name of its own.
  JobCommit late = CommitOf("batch-2-again", {ShareAt("c", "batch-2-again", "batch-2")});
  late.sequence = "stream";
  late.number = 2;
  EXPECT_TRUE(CommitAt("c", late).repeated);
  EXPECT_EQ(CountAt("a", "#"), 3 * kMessages);
  AwaitNoJobs();
  Await([&] { return StagedAt("a") == 0; });
}

TEST_F(ClusterJobsTest, AnAbortedJobIsGone) {
  StartWith(2);
  const std::string file = ShareAt("a", "job", "t");
  EXPECT_GT(StagedAt("a"), 0U);
  EXPECT_TRUE(At("b").AbortJob("job").ok());
  Await([&] { return StagedAt("a") + StagedAt("b") + StagedAt("c") == 0; });
  const Status committed = At("c").CommitJob(CommitOf("job", {file})).status();
  EXPECT_EQ(committed.code(), Code::kNotFound) << committed.message();
  EXPECT_TRUE(At("c").AbortJob("job").ok());
  EXPECT_EQ(CountAt("a", "#"), 0U);
  // The name may be used again.
  EXPECT_EQ(CommitAt("c", CommitOf("job", {ShareAt("b", "job", "t")})).messages, kMessages);
}

TEST_F(ClusterJobsTest, ACommittedJobIsNotAborted) {
  StartWith(1);
  const JobCommit commit = CommitOf("job", {ShareAt("a", "job", "t")});
  CommitAt("a", commit);
  EXPECT_TRUE(At("b").AbortJob("job").ok());
  EXPECT_EQ(CountAt("b", "#"), kMessages);
  EXPECT_TRUE(CommitAt("c", commit).repeated);
}

TEST_F(ClusterJobsTest, ARemovalThatIsLateKeepsALaterJob) {
  StartWith(1);
  StagingStep late;  // of the first attempt, whose cluster has gone on since
  late.kind = StagingStep::Kind::kRemove;
  late.job = "job";
  late.epoch = here_.at("a").site->state().jobs_epoch;
  ShareAt("a", "job", "t");
  EXPECT_TRUE(At("a").AbortJob("job").ok());
  AwaitNoJobs();
  const std::string file = ShareAt("b", "job", "t");
  StagingStep choose;
  choose.kind = StagingStep::Kind::kChoose;
  choose.job = "job";
  choose.choice = {here_.at("a").site->state().jobs_epoch, {file}};
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  EXPECT_TRUE(StageAt(*here_.at("a").site->shards(), 0, choose, deadline).ok());
  EXPECT_TRUE(StageAt(*here_.at("a").site->shards(), 0, late, deadline).ok());
  EXPECT_EQ(CommitAt("c", CommitOf("job", {file})).messages, kMessages);
}

TEST_F(ClusterJobsTest, ALostSiteLosesNothingThatWasShared) {
  StartWith(2);
  const std::string file = ShareAt("a", "job", "t");
  StopSite("a");
  EXPECT_EQ(CommitAt("b", CommitOf("job", {file})).messages, kMessages);
  EXPECT_EQ(CountAt("c", "#"), kMessages);
  StartSite("a");
  EXPECT_EQ(CountAt("a", "#"), kMessages);
  AwaitNoJobs();
  ExpectEqual();
}

// The site that has committed is lost before any shard need have applied the job.
TEST_F(ClusterJobsTest, AJobIsThereOnceItIsCommitted) {
  StartWith(2);
  for (int round = 0; round < 3; ++round) {
    const std::string job = "job-" + std::to_string(round);
    const std::string lost = LeaderOf(static_cast<std::uint32_t>(round % 2));
    JobCommit commit = CommitOf(job, {ShareAt(lost, job, job)});
    commit.timeout = std::chrono::microseconds(0);
    const auto receipt = At(lost).CommitJob(commit);
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
    StopSite(lost);
    const std::string left = here_.begin()->first;
    Await([&] { return CountAt(left, job + "/#") == kMessages; });
    EXPECT_TRUE(CommitAt(left, commit).repeated);
    StartSite(lost);
    EXPECT_EQ(CountAt(lost, job + "/#"), kMessages);
  }
  AwaitNoJobs();
  ExpectEqual();
}

TEST_F(ClusterJobsTest, LeadersChangeWhileJobsAreCommitted) {
  StartWith(2);
  std::atomic<bool> stops{false};
  std::thread mover([&] {
    while (!stops) {
      for (const char* name : {"a", "b", "c"}) here_.at(name).site->StepDown(name).IgnoreError();
    }
  });
  std::size_t stored = 0;
  for (int number = 0; number < 6; ++number) {
    const std::string job = "job-" + std::to_string(number);
    const std::string name(1, static_cast<char>('a' + number % 3));
    const std::string file = StageAtSite(name, job, job);
    Await([&] { return At(name).ShareStaged(job, file).ok(); });
    JobReceipt receipt;
    Await([&] {
      const auto committed = At(name).CommitJob(CommitOf(job, {file}));
      if (committed.ok()) receipt = *committed;
      return committed.ok() && committed->pending.empty();
    });
    stored += kMessages;
  }
  stops = true;
  mover.join();
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(CountAt(name, "#"), stored) << name;
  AwaitNoJobs();
  ExpectEqual();
}

TEST_F(ClusterJobsTest, WithoutAMajorityNothingIsCommitted) {
  patience_ = milliseconds(500);
  StartWith(1);
  const std::string file = ShareAt("a", "job", "t");
  StopSite("b");
  StopSite("c");
  const Status committed = At("a").CommitJob(CommitOf("job", {file})).status();
  EXPECT_EQ(committed.code(), Code::kNotLeader) << committed.message();
  StartSite("b");
  EXPECT_EQ(CountAt("b", "#"), 0U);
  JobReceipt receipt;
  Await([&] {
    const auto again = At("a").CommitJob(CommitOf("job", {file}));
    if (again.ok()) receipt = *again;
    return again.ok();
  });
  EXPECT_FALSE(receipt.repeated);
  Await([&] { return CountAt("b", "#") == kMessages; });
}

TEST_F(ClusterJobsTest, AReplicaThatWasAwayGetsTheJob) {
  StartWith(1);
  StopSite("c");
  CommitAt("a", CommitOf("job", {ShareAt("b", "job", "t")}));
  StartSite("c");
  EXPECT_EQ(CountAt("c", "#"), kMessages);
  AwaitNoJobs();
  ExpectEqual();
}

TEST_F(ClusterJobsTest, ASnapshotHasWhatIsStagedAndWhatIsCommitted) {
  flush_bytes_ = 1;  // so that the log is cut
  StartWith(1);
  CommitAt("a", CommitOf("first", {ShareAt("b", "first", "first")}));
  const std::string file = ShareAt("b", "second", "second");
  Await([&] {
    AppendAt("a", "more");  // the log is cut only after something was written
    const auto reports = here_.at(LeaderOf(0)).site->Replicas();
    return reports.front().first > 1;
  });
  JoinAs("d");
  EXPECT_GT(here_.at("d").site->Replicas().front().first, 1U);
  EXPECT_EQ(CountAt("d", "first/#"), kMessages);
  EXPECT_EQ(CountAt("d", "second/#"), 0U);
  EXPECT_EQ(CommitAt("d", CommitOf("second", {file})).messages, kMessages);
  EXPECT_EQ(CountAt("d", "first/#"), kMessages);
  EXPECT_EQ(CountAt("d", "second/#"), kMessages);
  AwaitNoJobs();
  ExpectEqual();
}

TEST_F(ClusterJobsTest, ARotationMovesAJobToTheNewGeneration) {
  StartWith(1);
  const std::string file = ShareAt("a", "job", "t");
  EXPECT_TRUE(At("b").upkeep().Rotate(std::nullopt).ok());
  CommitAt("c", CommitOf("job", {file}));
  EXPECT_EQ(CountAt("a", "#"), kMessages);
  AwaitNoJobs();
  ExpectEqual();
}

TEST_F(ClusterJobsTest, GenerationsBeginWhileJobsAreCommitted) {
  StartWith(1);
  for (int number = 0; number < 10; ++number) {
    const std::string job = "job-" + std::to_string(number);
    const std::string file = ShareAt("c", job, job);
    std::thread rotator([&] {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(At("a").upkeep().Rotate(std::nullopt).ok());
    });
    CommitAt("b", CommitOf(job, {file}));
    rotator.join();
    EXPECT_EQ(CountAt("a", job + "/#"), kMessages);
  }
  AwaitNoJobs();
  ExpectEqual();
}

TEST_F(ClusterJobsTest, GenerationsWithoutBlocksTakeMessages) {
  open_.schema.layout = LayoutKind::kSkipstream;
  StartWith(2);
  CommitAt("a", CommitOf("job", {ShareAt("b", "job", "t")}));
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(CountAt(name, "#"), kMessages);
  AwaitNoJobs();
  ExpectEqual();
}

TEST_F(ClusterJobsTest, AJobIsSealedAsOthersAre) {
  StartWith(1);
  CommitAt("a", CommitOf("job", {ShareAt("b", "job", "t")}));
  AppendAt("c", "1");
  AwaitNoJobs();
  EXPECT_TRUE(At(LeaderOf(0)).Flush().ok());
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(CountAt(name, "#"), kMessages + 1);
  ExpectEqual();
}

TEST_F(ClusterJobsTest, AJobWithoutMessagesIsCommitted) {
  StartWith(1);
  const JobReceipt receipt = CommitAt("a", CommitOf("job", {""}));
  EXPECT_EQ(receipt.messages, 0U);
  EXPECT_TRUE(receipt.serials.empty());
}

TEST_F(ClusterJobsTest, JobsWaitUntilAllSitesKnowThem) {
  newest_format_ = 1;
  StartWith(1);
  const std::string file = StageAtSite("a", "job", "t");
  const Status shared = At("a").ShareStaged("job", file);
  EXPECT_EQ(shared.code(), Code::kCluster);
  EXPECT_NE(shared.message().find("topicdb cluster upgrade"), std::string::npos)
      << shared.message();
  EXPECT_EQ(At("b").CommitJob(CommitOf("job", {file})).status().code(), Code::kCluster);
  newest_format_ = 2;
  for (const char* name : {"a", "b", "c"}) {
    Stop(name);
    Start(name);
    OpenAt({name});
  }
  EXPECT_EQ(At("a").ShareStaged("job", file).code(), Code::kCluster);
  EXPECT_EQ(here_.at("c").site->Upgrade(kLong).value(), 2U);
  AwaitState("a", [](const ClusterState& state) { return state.format == 2; });
  EXPECT_EQ(CommitAt("a", CommitOf("job", {file})).messages, kMessages);
  EXPECT_EQ(CountAt("b", "#"), kMessages);
}

TEST_F(ClusterJobsTest, TheDirectoryOfASiteTakesNoCommit) {
  StartWith(1);
  const std::string file = StageAtSite("a", "job", "t");
  const Status committed = CommitJob(directory_ / "a", CommitOf("job", {file})).status();
  EXPECT_EQ(committed.code(), Code::kReadOnly);
  EXPECT_NE(committed.message().find("belongs to a site"), std::string::npos);
  EXPECT_EQ(AbortJob(directory_ / "a", "job").code(), Code::kReadOnly);
  EXPECT_EQ(CommitAt("a", CommitOf("job", {file})).messages, kMessages);
}

TEST_F(ClusterJobsTest, ACopyOfASiteHasNothingThatIsOnlyStaged) {
  StartWith(1);
  CommitAt("a", CommitOf("job", {ShareAt("a", "job", "t")}));
  const std::string left = ShareAt("a", "left", "left");
  ASSERT_TRUE(At("a").MakeSnapshot(directory_ / "copy", {}, {}).ok());
  const auto copy = Database::Open(directory_ / "copy", {}).value();
  EXPECT_EQ(TakeAll(*copy, "#").size(), kMessages);
  EXPECT_EQ(copy->CommitJob(CommitOf("left", {left})).status().code(), Code::kNotFound);
}

TEST_F(ClusterJobsTest, WhatIsLeftBehindIsFound) {
  StartWith(2);
  const std::string file = ShareAt("a", "old", "t");
  Await([&] {
    const auto view = ReplicaAt("a", 0)->shard()->view();
    return JobsStagedBefore(*view, ReadWallClock() + std::chrono::hours(1)).value() ==
           std::vector<std::string>{"old"};
  });
  const auto view = ReplicaAt("a", 0)->shard()->view();
  EXPECT_TRUE(JobsStagedBefore(*view, ReadWallClock() - std::chrono::hours(1)).value().empty());
}

}  // namespace
}  // namespace topicdb::replication
