// Group commit: many callers hand in commits, and one of them writes for all that wait.
//
// A caller that finds nobody writing becomes the leader. It takes the commits that wait, has them
// written as one group, wakes the callers that are served, and wakes one that leads next. So
// commits gather by themselves while a group is being written, and a lone caller waits for nothing.
//
// The fsync is a second step, after the group is written, and has a leader of its own. While an
// fsync runs, commits that ask for the next one wait unwritten and become one group after it.
// Commits that ask for no fsync are written meanwhile, take the waiting ones along, and never wait
// for an fsync.
//
// Asynchronous commits gather until none came for `idle_flush_interval`, the oldest has waited for
// `flush_interval`, or `pending_max` of them wait. A thread, which the first of them starts, then
// writes them. A synchronous caller takes along the commits that wait.
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

#include "base/thread/mutex.h"
#include "base/thread/waiter.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// What GroupCommit notes of a commit. Only GroupCommit touches it, with its mutex held but for
// `over`.
struct CommitEntry {
  bool queued = false;
  bool committed = false;
  std::uint64_t group = 0;         // the group in which the commit was written
  std::function<void()> done;      // of an asynchronous commit
  std::shared_ptr<Waiter> waiter;  // of the caller of a synchronous commit
  // The outcome is known. Whoever sets this touches the commit no more.
  std::atomic<bool> over{false};
};

// What a caller hands in. Its types derive from it, and know what is to be stored.
struct QueuedCommit {
  QueuedCommit() = default;
  virtual ~QueuedCommit() = default;
  QueuedCommit(const QueuedCommit&) = delete;
  QueuedCommit& operator=(const QueuedCommit&) = delete;

  Durability durability = Durability::kOs;
  std::size_t bytes = 0;  // memory that the commit holds while it waits
  // The commit is written at once even if it wants an fsync and one is running, because others wait
  // for its effects.
  bool is_urgent = false;

  // The outcome, and whether anything was written. WriteGroup sets both.
  Status status;
  bool written = false;

  CommitEntry entry;
};

// Gathers commits into groups and has each group written and fsynced. Thread-safe. mutex_ is never
// held while one of the two functions runs. CommitQueue is its typed face.
class GroupCommit {
 public:
  // Stores the commits of a group in the order given, and sets their outcome. One call at a time.
  using WriteGroup = std::function<void(std::span<QueuedCommit* const> group)>;
  // Fsyncs what earlier groups wrote. One call at a time; groups may be written meanwhile. After a
  // failure WriteGroup must refuse every later commit.
  using SyncLog = std::function<Status()>;

  GroupCommit(WriteGroup write_group, SyncLog sync_log, const CommitOptions& options);
  ~GroupCommit();  // as Close
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // Returns when the commit has failed, or is written and as durable as it asks. Waits while the
  // queue is full.
  void Run(QueuedCommit* commit) TOPICDB_EXCLUDES(mutex_);
  // Takes the commit and returns; calls `done` from a thread of the queue when it is over. Waits
  // while the queue is full.
  void Submit(std::unique_ptr<QueuedCommit> commit, std::function<void()> done)
      TOPICDB_EXCLUDES(mutex_);
  // Finishes what was submitted. No call may be under way or follow. May be repeated.
  void Close() TOPICDB_EXCLUDES(mutex_);

  // Returns how many commits wait for a group. Callers that wait for room are not among them.
  std::size_t pending_count() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return pending_.size();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Threads to wake once the mutex is free, or they would only wait for it.
  using Wakes = std::vector<std::shared_ptr<Waiter>>;
  enum class Next { kOver, kStep, kWait };

  // Does one thing for the commit of a caller, and says how it goes on.
  Next Step(QueuedCommit* commit, Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  bool HasRoom(const QueuedCommit& commit) const TOPICDB_REQUIRES(mutex_);
  void WaitForRoom(const std::shared_ptr<Waiter>& waiter) TOPICDB_REQUIRES(mutex_);
  void Enqueue(QueuedCommit* commit) TOPICDB_REQUIRES(mutex_);
  // Whether its caller is to write a group now.
  bool MayLead(const QueuedCommit& commit) const TOPICDB_REQUIRES(mutex_);
  // Gives commits that are on their way the time to join the fsync that is about to come.
  void Gather(const QueuedCommit& leader) TOPICDB_REQUIRES(mutex_);
  // Writes one group for all. `leader` needs no wake-up; may be null. REQUIRES: !leading_
  void Lead(const QueuedCommit* leader, Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  std::vector<QueuedCommit*> TakeGroup() TOPICDB_REQUIRES(mutex_);
  // Notes that a commit is written, and whether that was all.
  void Serve(QueuedCommit* commit, Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  // Wakes one caller for each step that somebody has to take; `awake` takes its own.
  void WakeNext(const QueuedCommit* awake, Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  // Fsyncs for all whose groups are written. REQUIRES: !syncing_
  void Sync(Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  static void WakeAll(const Wakes& wakes);

  void FlushSubmitted() TOPICDB_EXCLUDES(mutex_);  // the thread
  // When what was submitted is to be written.
  Clock::time_point FlushTime() const TOPICDB_REQUIRES(mutex_);
  bool IsFull() const TOPICDB_REQUIRES(mutex_);
  void Finish(std::vector<std::unique_ptr<QueuedCommit>> commits) TOPICDB_REQUIRES(mutex_);
  Status SyncSubmitted(std::uint64_t group) TOPICDB_REQUIRES(mutex_);

  const WriteGroup write_group_;
  const SyncLog sync_log_;
  const CommitOptions options_;

  Mutex mutex_;
  std::deque<QueuedCommit*> pending_ TOPICDB_GUARDED_BY(mutex_);
  std::size_t pending_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::size_t submitted_ TOPICDB_GUARDED_BY(mutex_) = 0;  // of pending_
  Wakes room_waiters_ TOPICDB_GUARDED_BY(mutex_);
  bool leading_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::uint64_t written_groups_ TOPICDB_GUARDED_BY(mutex_) = 0;

  bool syncing_ TOPICDB_GUARDED_BY(mutex_) = false;
  Status sync_fault_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t synced_groups_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::vector<QueuedCommit*> sync_waiters_ TOPICDB_GUARDED_BY(mutex_);  // written, of callers
  std::uint64_t flusher_sync_group_ TOPICDB_GUARDED_BY(mutex_) = 0;     // that it waits for, or 0
  bool gathering_ TOPICDB_GUARDED_BY(mutex_) = false;
  CondVar gathered_;
  std::size_t gather_target_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::size_t last_width_ TOPICDB_GUARDED_BY(mutex_) = 0;  // commits that shared an fsync
  std::size_t previous_width_ TOPICDB_GUARDED_BY(mutex_) = 0;
  Clock::duration last_sync_time_ TOPICDB_GUARDED_BY(mutex_){};

  CondVar flusher_wake_;
  std::thread flusher_ TOPICDB_GUARDED_BY(mutex_);
  bool closing_ TOPICDB_GUARDED_BY(mutex_) = false;
  Clock::time_point first_submitted_ TOPICDB_GUARDED_BY(mutex_);
  Clock::time_point last_submitted_ TOPICDB_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<QueuedCommit>> written_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
