// Commits groups of appends, transactions and jobs to a shard.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "commit/append_ids.h"
#include "commit/commit_queue.h"
#include "store/shard/commit/commit_builder.h"
#include "store/shard/commit/merge_deletes.h"
#include "store/shard/commit/shard_commit.h"
#include "store/shard/commit/shard_jobs.h"
#include "store/shard/commit/shard_leader.h"
#include "store/shard/commit/transaction_check.h"
#include "store/shard/state/disk_usage.h"
#include "store/shard/upkeep/shard_sealing.h"

namespace topicdb {

// Takes the commits of a shard from its queue, writes each group of them as few batches as
// possible, and makes them visible. A Shard owns it. Thread-safe; Close must be the last call.
// Nobody holds a lock of the queue when taking the commit mutex.
class Committer {
 public:
  // The objects of the shard that a commit asks or tells something. They must outlive the
  // committer.
  struct Parts {
    ShardState& shard;
    DiskUsage& disk;
    ShardSealing& sealing;
    TransactionCheck& transactions;
    MergeDeletes& merge_deletes;
    ShardJobs& jobs;
  };
  explicit Committer(const Parts& parts);

  // Knows these ids of appends from now on, and no others. Moves them out of `append_ids`.
  void TakeAppendIds(AppendIds* append_ids) TOPICDB_REQUIRES(shard_.mutex) {
    append_ids_.TakeAll(append_ids);
  }

  // Commits, and returns when the commit is as durable as it asks. Sets the outcome in `commit`.
  // Does not remove yet what large deletes hide: see ShardCommit::hides. A failure to write or to
  // fsync poisons the shard.
  void Commit(ShardCommit* commit) TOPICDB_EXCLUDES(shard_.mutex);
  // Queues the commit and returns true. Waits while the queue is full. Calls `done` from another
  // thread when the commit is over. If the queue is still full at the deadline `room_until`,
  // returns false and destroys the commit; nobody calls `done` then.
  bool CommitAsync(std::unique_ptr<ShardCommit> commit, std::function<void()> done,
                   std::optional<GroupCommit::Clock::time_point> room_until = std::nullopt)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Applies commits that came from other replicas, as a group of their own. They pass nobody who
  // waits for another replica, so that two replicas never wait for each other.
  void CommitHere(std::span<ShardCommit* const> group) TOPICDB_EXCLUDES(shard_.mutex);
  // Finishes what was submitted. No call may be under way or follow. May be repeated.
  void Close() { queue_.Close(); }

  // Returns what is known of the append with this id, or nothing if its id is not known.
  // REQUIRES (FindAppend): the shard is open for writing
  std::optional<KnownAppend> FindAppend(std::string_view id) const { return append_ids_.Find(id); }
  // Returns by how much the last timestamp that was assigned was ahead of the clock then.
  std::chrono::microseconds clock_ahead() const { return clock_ahead_; }

 private:
  // Commits a group of commits in their order, here or at the replica that leads, and sets the
  // outcome of each. The queue calls it. It throws nothing: the queue would wait for ever for a
  // caller that has left it.
  void CommitGroup(std::span<ShardCommit* const> group) TOPICDB_EXCLUDES(shard_.mutex);
  // Commits as CommitGroup does if other replicas may lead.
  void CommitAtLeader(std::span<ShardCommit* const> group, ShardLeader* leader)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Does the work of CommitHere. Adds the commits whose outcome is set to `over`. Throws
  // std::bad_alloc if memory is short.
  void CommitEach(std::span<ShardCommit* const> group, std::vector<ShardCommit*>* over)
      TOPICDB_EXCLUDES(shard_.mutex);

  std::unique_ptr<CommitBuilder> NewBuilder(const ExpectedWrites& expected)
      TOPICDB_REQUIRES(shard_.mutex);
  // Returns whether the id of an append is known. Then sets its outcome: that of the first append,
  // or an error if the id belongs to another append.
  bool IsRepeated(ShardCommit* commit) const TOPICDB_REQUIRES(shard_.mutex);
  // Commits what a job has staged, unless it was committed before. Leaves reserved serials for
  // `left` commits: this one, and those behind it in its group.
  Status CommitStaged(ShardCommit* commit, std::size_t left) TOPICDB_REQUIRES(shard_.mutex);
  // Writes the batch of the builder, which has these commits, and makes it visible. Sets the
  // outcome of the commits if the write fails. Does nothing if the batch is empty.
  void WriteBuilt(CommitBuilder* builder, std::span<ShardCommit* const> commits)
      TOPICDB_REQUIRES(shard_.mutex);
  // Does the work of WriteBuilt for a batch that is not empty.
  void WriteAndShow(CommitBuilder* builder, std::span<ShardCommit* const> commits)
      TOPICDB_REQUIRES(shard_.mutex);
  // Finishes the batch of the builder, and writes it. Sets `logged` to whether it is in the log.
  Status WriteBatch(CommitBuilder* builder, bool* logged) TOPICDB_REQUIRES(shard_.mutex);
  // Notes what the commits have deleted or replaced: in the numbers of the shard that views have,
  // and for a merge that is under way.
  void NoteDeletes(const CommitBuilder& builder, std::span<ShardCommit* const> commits)
      TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
  DiskUsage& disk_;
  ShardSealing& sealing_;
  TransactionCheck& transactions_;
  MergeDeletes& merge_deletes_ TOPICDB_GUARDED_BY(shard_.mutex);
  ShardJobs& jobs_;
  AppendIds append_ids_;  // thread-safe; empty in a shard that is not written
  std::atomic<std::chrono::microseconds> clock_ahead_{std::chrono::microseconds(0)};
  // Whether a batch may be written that is not visible yet.
  bool is_writing_ TOPICDB_GUARDED_BY(shard_.mutex) = false;
  CommitQueue<ShardCommit> queue_;  // last: its thread ends before anything else goes
};

}  // namespace topicdb
