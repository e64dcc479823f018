// Group commit: many callers hand in commits, and one of them writes for all callers that wait.
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
// `flush_interval`, `pending_max` of them wait, or one is urgent. A thread, which the first of them
// starts, then writes them. A synchronous caller takes along the commits that wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"
#include "base/thread/waiter.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// What GroupCommit notes of a commit. Only GroupCommit reads and changes it. The mutex of
// GroupCommit guards all members except `over`.
struct CommitEntry {
  bool queued = false;
  bool committed = false;
  std::uint64_t group = 0;         // the group in which the commit was written
  std::function<void()> done;      // of an asynchronous commit
  std::shared_ptr<Waiter> waiter;  // of the caller of a synchronous commit
  // Whether the outcome is known. The thread that sets it must not touch the commit any more: the
  // caller may have destroyed it.
  std::atomic<bool> over{false};
};

// A commit that a caller hands in. Derived types know what the commit stores. The caller of Run
// owns it; GroupCommit owns it after Submit. Not thread-safe: GroupCommit gives it to one thread at
// a time.
struct QueuedCommit {
  QueuedCommit() = default;
  virtual ~QueuedCommit() = default;
  QueuedCommit(const QueuedCommit&) = delete;
  QueuedCommit& operator=(const QueuedCommit&) = delete;

  Durability durability = Durability::kOs;
  std::size_t bytes = 0;  // memory that the commit takes while it waits
  // If true, the commit is written at once, because others wait for its effects: even if it wants
  // an fsync while one is running, and even if it could gather with others.
  bool is_urgent = false;

  // The outcome, and whether anything was written. WriteGroup sets both.
  Status status;
  bool written = false;

  CommitEntry entry;
};

// Gathers commits into groups and has each group written and fsynced. A CommitQueue owns it, and
// gives its commits a type. Thread-safe; Close must be the last call. mutex_ is never held while
// one of the two functions runs.
class GroupCommit {
 public:
  // Stores the commits of a group in the order given, and sets their outcome. One call at a time.
  using WriteGroup = std::function<void(std::span<QueuedCommit* const> group)>;
  // Fsyncs what earlier groups wrote. One call at a time; groups may be written meanwhile. After a
  // failure WriteGroup must refuse every later commit.
  using SyncLog = std::function<Status()>;
  using Clock = std::chrono::steady_clock;

  GroupCommit(WriteGroup write_group, SyncLog sync_log, const CommitOptions& options);
  ~GroupCommit();  // calls Close
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // Returns when the commit has failed, or is written and as durable as it asks. Waits while the
  // queue is full.
  void Run(QueuedCommit* commit) TOPICDB_EXCLUDES(mutex_);
  // Takes the commit and returns true. Calls `done` from the thread of the queue when the commit is
  // over. Waits while the queue is full. If it still is at the deadline `room_until`, returns false
  // and destroys the commit; nobody calls `done` then.
  bool Submit(std::unique_ptr<QueuedCommit> commit, std::function<void()> done,
              std::optional<Clock::time_point> room_until = std::nullopt) TOPICDB_EXCLUDES(mutex_);
  // Finishes what was submitted. No call may be under way or follow. May be repeated.
  void Close() TOPICDB_EXCLUDES(mutex_);

  // Returns how many commits wait for a group. Callers that wait for room are not among them.
  std::size_t pending_count() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return pending_.size();
  }

 private:
  // Threads to wake once mutex_ is free. Woken earlier, they would only wait for it.
  using Wakes = std::vector<std::shared_ptr<Waiter>>;
  // What a caller does after Step: return, call Step again, or wait before it does so.
  enum class Next { kOver, kStep, kWait };

  // Does the next thing for the commit of a caller: hands it in, writes a group, or fsyncs. Returns
  // what the caller must do then.
  Next Step(QueuedCommit* commit, Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  // Returns whether the queue has room for the commit.
  bool HasRoom(const QueuedCommit& commit) const TOPICDB_REQUIRES(mutex_);
  // Notes a thread that waits for room. The next Lead wakes it.
  void WaitForRoom(const std::shared_ptr<Waiter>& waiter) TOPICDB_REQUIRES(mutex_);
  // Waits until the queue has room for a commit that is submitted, and unlocks mutex_ meanwhile.
  // Returns false if there is none at the deadline.
  bool AwaitRoom(const QueuedCommit& commit, std::optional<Clock::time_point> until)
      TOPICDB_REQUIRES(mutex_);
  // Adds a commit to those that wait.
  void Enqueue(QueuedCommit* commit) TOPICDB_REQUIRES(mutex_);
  // Returns whether the caller of this commit may write a group now.
  bool MayLead(const QueuedCommit& commit) const TOPICDB_REQUIRES(mutex_);
  // Waits a little, so that commits that are on their way share the next fsync.
  void Gather(const QueuedCommit& leader) TOPICDB_REQUIRES(mutex_);
  // Writes the commits that wait as one group, and unlocks mutex_ meanwhile. `leader` is the commit
  // of the calling thread, or null if it has none in the group. REQUIRES: !leading_
  void Lead(const QueuedCommit* leader, Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  // Takes the oldest commits that wait, as many as fit in a group.
  std::vector<QueuedCommit*> TakeGroup() TOPICDB_REQUIRES(mutex_);
  // Notes that a commit is written. A submitted one goes to the thread of the queue. Any other that
  // needs no fsync is over.
  void Serve(QueuedCommit* commit, Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  // Wakes a thread for each step that must be taken now: to write a group, and to fsync. The thread
  // of `awake`, which may be null, takes the step of its own commit without that.
  void WakeNext(const QueuedCommit* awake, Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  // Fsyncs for all commits whose groups are written, and unlocks mutex_ meanwhile.
  // REQUIRES: !syncing_
  void Sync(Wakes* wakes) TOPICDB_REQUIRES(mutex_);
  static void WakeAll(const Wakes& wakes);

  // The loop of the thread that writes submitted commits and calls `done`.
  void FlushSubmitted() TOPICDB_EXCLUDES(mutex_);
  // Returns when the submitted commits that wait must be written.
  Clock::time_point FlushTime() const TOPICDB_REQUIRES(mutex_);
  // Returns whether so much waits that submitted commits must be written at once.
  bool IsFull() const TOPICDB_REQUIRES(mutex_);
  // Fsyncs for submitted commits that are written and want that, and calls `done` of each. Unlocks
  // mutex_ meanwhile.
  void Finish(std::vector<std::unique_ptr<QueuedCommit>> commits) TOPICDB_REQUIRES(mutex_);
  // Returns once the groups up to `group` are fsynced, or the error of an fsync.
  Status SyncSubmitted(std::uint64_t group) TOPICDB_REQUIRES(mutex_);

  const WriteGroup write_group_;
  const SyncLog sync_log_;
  const CommitOptions options_;

  Mutex mutex_;
  std::deque<QueuedCommit*> pending_ TOPICDB_GUARDED_BY(mutex_);
  std::size_t pending_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::size_t submitted_ TOPICDB_GUARDED_BY(mutex_) = 0;  // how many of pending_ were submitted
  std::size_t urgent_ TOPICDB_GUARDED_BY(mutex_) = 0;     // how many of these are urgent
  Wakes room_waiters_ TOPICDB_GUARDED_BY(mutex_);
  CondVar room_;  // for callers that wait for room until a deadline
  std::size_t room_callers_ TOPICDB_GUARDED_BY(mutex_) = 0;  // how many of them there are
  bool leading_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::uint64_t written_groups_ TOPICDB_GUARDED_BY(mutex_) = 0;

  bool syncing_ TOPICDB_GUARDED_BY(mutex_) = false;
  Status sync_fault_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t synced_groups_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::vector<QueuedCommit*> sync_waiters_ TOPICDB_GUARDED_BY(mutex_);  // of Run, written
  std::uint64_t flusher_sync_group_ TOPICDB_GUARDED_BY(mutex_) = 0;     // of SyncSubmitted, or 0
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
  std::vector<std::unique_ptr<QueuedCommit>> written_  // submitted, and not finished yet
      TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
