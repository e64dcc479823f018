#include "commit/commit_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <set>

namespace topicdb {
namespace {

using std::chrono::milliseconds;

struct NumberedCommit : QueuedCommit {
  int number = 0;
};
using Queue = CommitQueue<NumberedCommit>;

// Records the groups and the fsyncs that a queue asks for. Block makes the next group wait, and
// BlockSync the next fsync, as a slow disk would.
class RecordingSink {
 public:
  void WriteGroup(std::span<NumberedCommit* const> group) {
    const MutexLock lock(mutex_);
    EXPECT_FALSE(committing_);
    committing_ = true;
    changed_.NotifyAll();
    while (blocked_) changed_.Wait(mutex_);
    groups_.emplace_back();
    for (NumberedCommit* commit : group) {
      const int number = commit->number;
      groups_.back().push_back(number);
      if (number < 0) commit->status = StorageFault("refused");
      commit->written = number >= 0;
    }
    committing_ = false;
  }
  Status SyncLog() {
    {
      const MutexLock lock(mutex_);
      EXPECT_FALSE(syncing_);
      syncing_ = true;
      changed_.NotifyAll();
      while (sync_blocked_) changed_.Wait(mutex_);
    }
    const MutexLock lock(mutex_);
    syncing_ = false;
    ++syncs_;
    return sync_fault_;
  }

  void Block(bool blocked) {
    const MutexLock lock(mutex_);
    blocked_ = blocked;
    changed_.NotifyAll();
  }
  void BlockSync(bool blocked) {
    const MutexLock lock(mutex_);
    sync_blocked_ = blocked;
    changed_.NotifyAll();
  }
  void FailSyncs() {
    const MutexLock lock(mutex_);
    sync_fault_ = StorageFault("the disk is gone");
  }
  std::vector<std::vector<int>> groups() {
    const MutexLock lock(mutex_);
    return groups_;
  }
  int syncs() {
    const MutexLock lock(mutex_);
    return syncs_;
  }
  void WaitUntilCommitting() {
    const MutexLock lock(mutex_);
    while (!committing_) changed_.Wait(mutex_);
  }
  void WaitUntilSyncing() {
    const MutexLock lock(mutex_);
    while (!syncing_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::vector<int>> groups_ TOPICDB_GUARDED_BY(mutex_);
  int syncs_ TOPICDB_GUARDED_BY(mutex_) = 0;
  bool committing_ TOPICDB_GUARDED_BY(mutex_) = false;
  bool syncing_ TOPICDB_GUARDED_BY(mutex_) = false;
  bool blocked_ TOPICDB_GUARDED_BY(mutex_) = false;
  bool sync_blocked_ TOPICDB_GUARDED_BY(mutex_) = false;
  Status sync_fault_ TOPICDB_GUARDED_BY(mutex_);
};

Queue QueueTo(RecordingSink* sink, const CommitOptions& options) {
  return Queue([sink](std::span<NumberedCommit* const> group) { sink->WriteGroup(group); },
               [sink] { return sink->SyncLog(); }, options);
}

void WaitUntilPending(Queue& queue, std::size_t count) {
  while (queue.pending_count() != count) std::this_thread::sleep_for(milliseconds(1));
}

Status RunOne(Queue& queue, int number, Durability durability = Durability::kOs,
              std::size_t bytes = 1) {
  NumberedCommit commit;
  commit.number = number;
  commit.durability = durability;
  commit.bytes = bytes;
  queue.Run(&commit);
  return commit.status;
}

void SubmitOne(Queue& queue, int number, std::function<void()> done,
               Durability durability = Durability::kOs) {
  auto commit = std::make_unique<NumberedCommit>();
  commit->number = number;
  commit->durability = durability;
  commit->bytes = 1;
  queue.Submit(std::move(commit), std::move(done));
}

TEST(CommitQueue, ALoneCallerIsServedAtOnceAndFailuresAreItsOwn) {
  RecordingSink sink;
  Queue queue = QueueTo(&sink, {});
  EXPECT_TRUE(RunOne(queue, 1).ok());
  EXPECT_EQ(RunOne(queue, -2).code(), Code::kStorage);
  EXPECT_TRUE(RunOne(queue, 3, Durability::kDisk).ok());
  EXPECT_EQ(sink.groups(), (std::vector<std::vector<int>>{{1}, {-2}, {3}}));
  EXPECT_EQ(sink.syncs(), 1);
}

TEST(CommitQueue, WhatComesDuringAWriteIsOneGroup) {
  RecordingSink sink;
  Queue queue = QueueTo(&sink, {});
  sink.Block(true);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(RunOne(queue, 0).ok()); });
  sink.WaitUntilCommitting();
  for (int i = 1; i < 8; ++i) {
    threads.emplace_back([&, i] { EXPECT_TRUE(RunOne(queue, i).ok()); });
  }
  WaitUntilPending(queue, 7);
  sink.Block(false);
  for (std::thread& thread : threads) thread.join();
  const auto groups = sink.groups();
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0], std::vector<int>{0});
  EXPECT_EQ(std::set<int>(groups[1].begin(), groups[1].end()),
            (std::set<int>{1, 2, 3, 4, 5, 6, 7}));
}

TEST(CommitQueue, CommitsThatAskForLessDoNotWaitForAnFsync) {
  RecordingSink sink;
  Queue queue = QueueTo(&sink, {});
  sink.BlockSync(true);
  auto durable =
      std::async(std::launch::async, [&] { return RunOne(queue, 1, Durability::kDisk); });
  sink.WaitUntilSyncing();
  EXPECT_TRUE(RunOne(queue, 2, Durability::kOs).ok());
  EXPECT_EQ(durable.wait_for(milliseconds(0)), std::future_status::timeout);
  sink.BlockSync(false);
  EXPECT_TRUE(durable.get().ok());
}

TEST(CommitQueue, AFailedFsyncFailsAllThatWaitForItAndAllAfterIt) {
  RecordingSink sink;
  Queue queue = QueueTo(&sink, {});
  EXPECT_TRUE(RunOne(queue, 1, Durability::kDisk).ok());
  sink.FailSyncs();
  EXPECT_EQ(RunOne(queue, 2, Durability::kDisk).code(), Code::kStorage);
  EXPECT_EQ(RunOne(queue, 3, Durability::kDisk).code(), Code::kStorage);
  EXPECT_EQ(sink.syncs(), 2);  // the queue has not asked for another fsync
}

TEST(CommitQueue, CommitsThatComeDuringAnFsyncAreOneGroupAfterIt) {
  constexpr std::size_t kRounds = 5;
  RecordingSink sink;
  Queue queue = QueueTo(&sink, {});
  for (std::size_t round = 0; round < kRounds; ++round) {
    sink.BlockSync(true);
    std::vector<std::thread> threads;
    threads.emplace_back([&] { EXPECT_TRUE(RunOne(queue, 0, Durability::kDisk).ok()); });
    sink.WaitUntilSyncing();
    for (int i = 1; i < 6; ++i) {
      threads.emplace_back([&, i] { EXPECT_TRUE(RunOne(queue, i, Durability::kDisk).ok()); });
    }
    WaitUntilPending(queue, 5);
    EXPECT_EQ(sink.groups().size(), 2 * round + 1);
    sink.BlockSync(false);
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(sink.groups().size(), 2 * round + 2);
    EXPECT_EQ(sink.groups().back().size(), 5U);
    EXPECT_EQ(sink.syncs(), static_cast<int>(2 * round + 2));
  }
}

// Whatever calls come together, the queue must not leave a caller asleep.
TEST(CommitQueue, CallersOfAllKindsAreAllServed) {
  constexpr int kThreads = 8;
  constexpr int kCommits = 300;
  RecordingSink sink;
  CommitOptions options;
  options.flush_interval = std::chrono::microseconds(200);
  options.idle_flush_interval = std::chrono::microseconds(50);
  options.pending_max = 3;  // so that callers sometimes wait for room
  std::atomic<int> done{0};
  {
    Queue queue = QueueTo(&sink, options);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kCommits; ++i) {
          const auto durability = (i + thread) % 3 == 0 ? Durability::kDisk : Durability::kOs;
          if ((i / 7 + thread) % 4 == 0) {
            SubmitOne(queue, i, [&] { ++done; }, durability);
          } else if ((i / 7 + thread) % 4 == 1) {
            auto commit = std::make_unique<NumberedCommit>();
            commit->number = i;
            commit->durability = durability;
            commit->is_urgent = i % 2 == 0;
            const auto until = GroupCommit::Clock::now() + milliseconds(i % 3);
            if (!queue.Submit(std::move(commit), [&] { ++done; }, until)) ++done;
          } else if (RunOne(queue, i % 50 == 49 ? -1 : i, durability).ok() == (i % 50 != 49)) {
            ++done;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(done, kThreads * kCommits);
}

TEST(CommitQueue, AnFsyncThatFailsLeavesNobodyAsleep) {
  RecordingSink sink;
  Queue queue = QueueTo(&sink, {});
  sink.BlockSync(true);
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      if (!RunOne(queue, i, Durability::kDisk).ok()) ++failed;
    });
  }
  std::promise<void> submitted;
  SubmitOne(queue, 6, [&] { submitted.set_value(); }, Durability::kDisk);
  sink.WaitUntilSyncing();
  sink.FailSyncs();
  sink.BlockSync(false);
  for (std::thread& thread : threads) thread.join();
  submitted.get_future().get();
  EXPECT_EQ(failed, 6);
  EXPECT_TRUE(RunOne(queue, 7, Durability::kOs).ok());
}

TEST(CommitQueue, SubmittedCommitsGatherAndClosingFinishesThem) {
  RecordingSink sink;
  CommitOptions options;
  options.flush_interval = options.idle_flush_interval = std::chrono::hours(1);
  std::atomic<int> done{0};
  {
    Queue queue = QueueTo(&sink, options);
    for (int i = 0; i < 5; ++i) SubmitOne(queue, i, [&] { ++done; }, Durability::kDisk);
    EXPECT_TRUE(sink.groups().empty());
    queue.Close();
    EXPECT_EQ(done, 5);
  }
  EXPECT_EQ(sink.groups(), (std::vector<std::vector<int>>{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(sink.syncs(), 1);
}

TEST(CommitQueue, ASynchronousCallerTakesAlongWhatWasSubmitted) {
  RecordingSink sink;
  CommitOptions options;
  options.flush_interval = options.idle_flush_interval = std::chrono::hours(1);
  Queue queue = QueueTo(&sink, options);
  std::promise<void> done;
  SubmitOne(queue, 1, [&] { done.set_value(); });
  EXPECT_TRUE(RunOne(queue, 2).ok());
  done.get_future().get();
  EXPECT_EQ(sink.groups(), (std::vector<std::vector<int>>{{1, 2}}));
}

TEST(CommitQueue, IdleAndFullQueuesAreWrittenWithoutACaller) {
  RecordingSink sink;
  CommitOptions options;
  options.flush_interval = std::chrono::hours(1);
  options.idle_flush_interval = milliseconds(5);
  std::promise<void> idle;
  Queue idle_queue = QueueTo(&sink, options);
  SubmitOne(idle_queue, 1, [&] { idle.set_value(); });
  idle.get_future().get();

  options.idle_flush_interval = std::chrono::hours(1);
  options.pending_max = 3;
  std::promise<void> full;
  Queue full_queue = QueueTo(&sink, options);
  for (int i = 2; i < 4; ++i) SubmitOne(full_queue, i, [] {});
  SubmitOne(full_queue, 4, [&] { full.set_value(); });
  full.get_future().get();
  EXPECT_EQ(sink.groups(), (std::vector<std::vector<int>>{{1}, {2, 3, 4}}));
}

TEST(CommitQueue, AnUrgentCommitDoesNotGatherAndTakesOthersAlong) {
  RecordingSink sink;
  CommitOptions options;
  options.flush_interval = options.idle_flush_interval = std::chrono::hours(1);
  Queue queue = QueueTo(&sink, options);
  SubmitOne(queue, 1, [] {});
  std::promise<void> done;
  auto urgent = std::make_unique<NumberedCommit>();
  urgent->number = 2;
  urgent->is_urgent = true;
  EXPECT_TRUE(queue.Submit(std::move(urgent), [&] { done.set_value(); }));
  done.get_future().get();
  EXPECT_EQ(sink.groups(), (std::vector<std::vector<int>>{{1, 2}}));
  SubmitOne(queue, 3, [] {});  // gathers again
  EXPECT_EQ(queue.pending_count(), 1U);
}

TEST(CommitQueue, WhoWaitsForRoomGivesUpAtItsDeadline) {
  using Clock = GroupCommit::Clock;
  RecordingSink sink;
  CommitOptions options;
  options.pending_max = 1;
  Queue queue = QueueTo(&sink, options);
  const auto submit = [&](int number, Clock::time_point until, std::function<void()> done) {
    auto commit = std::make_unique<NumberedCommit>();
    commit->number = number;
    return queue.Submit(std::move(commit), std::move(done), until);
  };
  sink.Block(true);
  SubmitOne(queue, 0, [] {});
  sink.WaitUntilCommitting();
  SubmitOne(queue, 1, [] {});  // now the queue is full
  const auto nobody = [] { ADD_FAILURE() << "it was not taken"; };
  EXPECT_FALSE(submit(2, Clock::now(), nobody));
  EXPECT_FALSE(submit(3, Clock::now() + milliseconds(5), nobody));
  std::promise<void> done;
  auto patient = std::async(std::launch::async, [&] {
    return submit(4, Clock::now() + std::chrono::hours(1), [&] { done.set_value(); });
  });
  sink.Block(false);
  EXPECT_TRUE(patient.get());
  done.get_future().get();
  EXPECT_EQ(sink.groups(), (std::vector<std::vector<int>>{{0}, {1}, {4}}));
}

TEST(CommitQueue, AFullQueueHoldsItsCallersBack) {
  RecordingSink sink;
  CommitOptions options;
  options.pending_bytes_max = 100;
  Queue queue = QueueTo(&sink, options);
  sink.Block(true);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(RunOne(queue, 0, Durability::kOs, 80).ok()); });
  sink.WaitUntilCommitting();
  for (int i = 1; i < 6; ++i) {
    threads.emplace_back([&, i] { EXPECT_TRUE(RunOne(queue, i, Durability::kOs, 80).ok()); });
  }
  WaitUntilPending(queue, 1);  // the queue has no room for another one
  sink.Block(false);
  for (std::thread& thread : threads) thread.join();
  for (const auto& group : sink.groups()) EXPECT_EQ(group.size(), 1U);  // 80 + 80 > 100
}

}  // namespace
}  // namespace topicdb
