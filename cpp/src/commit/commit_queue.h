// Group commit: many callers, one of whom writes for all that wait.
//
// A caller that finds nobody writing becomes the leader: it takes what waits, hands it to the sink
// as one group, and wakes the others. So commits gather by themselves while one is being written,
// and a lone caller waits for nothing. Fsync is a second step with a leader of its own, after the
// group is written: commits that ask for it share one, and those that do not never wait for it.
//
// Asynchronous commits gather until none came for `idle_flush_interval`, the oldest has waited for
// `flush_interval`, or there are `pending_max`; a thread of the queue, started by the first of
// them, then writes them. A synchronous caller takes along what waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// What a caller hands in; the sink knows more of it.
struct QueuedCommit {
  QueuedCommit() = default;
  virtual ~QueuedCommit() = default;
  QueuedCommit(const QueuedCommit&) = delete;
  QueuedCommit& operator=(const QueuedCommit&) = delete;

  Durability durability = Durability::kOs;
  std::size_t bytes = 0;  // memory that it holds while it waits

  // Set by the sink: the outcome, and whether anything was written.
  Status status;
  bool written = false;

 private:
  friend class CommitQueue;
  bool committed_ = false;      // guarded by the queue's mutex
  std::uint64_t group_ = 0;     // in which it was written
  std::function<void()> done_;  // of an asynchronous one
};

class CommitSink {
 public:
  CommitSink() = default;
  virtual ~CommitSink() = default;
  CommitSink(const CommitSink&) = delete;
  CommitSink& operator=(const CommitSink&) = delete;

  // Commits in the order given and sets what a sink sets. One call at a time.
  virtual void CommitGroup(std::span<QueuedCommit* const> group) = 0;
  // Fsyncs what earlier groups wrote. One call at a time; groups may be written meanwhile. After a
  // failure the sink must refuse every later commit.
  virtual Status SyncLog() = 0;
};

// Thread-safe. Lock order: mutex_ and sync_mutex_ are never held together, nor while the sink runs.
class CommitQueue {
 public:
  CommitQueue(CommitSink* sink, const CommitOptions& options);
  ~CommitQueue();  // as Close
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // Returns when the commit has failed, or is written and as durable as it asks. Waits while the
  // queue is full.
  void Run(QueuedCommit* commit) TOPICDB_EXCLUDES(mutex_, sync_mutex_);
  // Takes the commit and returns; calls `done` from a thread of the queue when it is over. Waits
  // while the queue is full.
  void Submit(std::unique_ptr<QueuedCommit> commit, std::function<void()> done)
      TOPICDB_EXCLUDES(mutex_, sync_mutex_);
  // Finishes what was submitted. No call may be under way or follow. May be repeated.
  void Close() TOPICDB_EXCLUDES(mutex_, sync_mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  bool HasRoom(const QueuedCommit& commit) const TOPICDB_REQUIRES(mutex_);
  void Enqueue(QueuedCommit* commit) TOPICDB_REQUIRES(mutex_);
  // Writes one group for all. REQUIRES: !leading_
  void Lead() TOPICDB_REQUIRES(mutex_);
  std::vector<QueuedCommit*> TakeGroup() TOPICDB_REQUIRES(mutex_);
  Status SyncUpTo(std::uint64_t group) TOPICDB_EXCLUDES(mutex_, sync_mutex_);
  // Gives commits that are on their way the time to join the fsync that is about to begin.
  void GatherForSync() TOPICDB_REQUIRES(sync_mutex_);

  void FlushSubmitted() TOPICDB_EXCLUDES(mutex_, sync_mutex_);  // the thread
  // When what was submitted is to be written.
  Clock::time_point FlushTime() const TOPICDB_REQUIRES(mutex_);
  void Finish(std::vector<std::unique_ptr<QueuedCommit>> commits)
      TOPICDB_EXCLUDES(mutex_, sync_mutex_);

  CommitSink* const sink_;
  const CommitOptions options_;

  Mutex mutex_;
  CondVar changed_;  // a group is written: there is room, or a leader is wanted
  std::deque<QueuedCommit*> pending_ TOPICDB_GUARDED_BY(mutex_);
  std::size_t pending_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  bool leading_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::uint64_t groups_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> written_groups_{0};

  CondVar flusher_wake_;
  std::thread flusher_ TOPICDB_GUARDED_BY(mutex_);
  bool closing_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::size_t submitted_ TOPICDB_GUARDED_BY(mutex_) = 0;  // of pending_
  std::size_t waiting_for_room_ TOPICDB_GUARDED_BY(mutex_) = 0;
  Clock::time_point first_submitted_ TOPICDB_GUARDED_BY(mutex_);
  Clock::time_point last_submitted_ TOPICDB_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<QueuedCommit>> written_ TOPICDB_GUARDED_BY(mutex_);

  Mutex sync_mutex_;
  CondVar synced_;   // an fsync is over
  CondVar arrived_;  // one more commit wants to be in the next
  bool syncing_ TOPICDB_GUARDED_BY(sync_mutex_) = false;
  Status sync_fault_ TOPICDB_GUARDED_BY(sync_mutex_);
  std::uint64_t synced_groups_ TOPICDB_GUARDED_BY(sync_mutex_) = 0;
  std::size_t arrivals_ TOPICDB_GUARDED_BY(sync_mutex_) = 0;    // since the last fsync began
  std::size_t last_width_ TOPICDB_GUARDED_BY(sync_mutex_) = 0;  // commits that shared an fsync
  std::size_t previous_width_ TOPICDB_GUARDED_BY(sync_mutex_) = 0;
  Clock::duration last_sync_time_ TOPICDB_GUARDED_BY(sync_mutex_){};
};

}  // namespace topicdb
