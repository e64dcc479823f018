// Commits groups of appends, transactions and jobs to a shard.
#pragma once

#include <atomic>
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
#include "store/shard/commit/transaction_check.h"
#include "store/shard/state/disk_usage.h"
#include "store/shard/upkeep/shard_sealing.h"

namespace topicdb {

// Takes the commits of a shard from its queue, writes each group of them as one batch, and makes
// them visible. A Shard owns it. Thread-safe. The locks of the queue are never held while the
// commit mutex is taken.
class Committer {
 public:
  // The objects of the shard that a commit asks or tells something. They outlive the committer.
  struct Parts {
    ShardState& shard;
    DiskUsage& disk;
    ShardSealing& sealing;
    TransactionCheck& transactions;
    MergeDeletes& merge_deletes;
    ShardJobs& jobs;
  };
  // append_ids: those that the shard had when it was opened.
  Committer(const Parts& parts, std::unique_ptr<AppendIds> append_ids);

  // Commits, and waits until that is as durable as asked. The outcome is in `commit`. What deletes
  // hide is not removed yet: see ShardCommit::hides. A failure to write or to fsync poisons the
  // shard.
  void Commit(ShardCommit* commit) TOPICDB_EXCLUDES(shard_.mutex);
  // As Commit, but returns at once; `done` is called from another thread.
  void CommitAsync(std::unique_ptr<ShardCommit> commit, std::function<void()> done)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Finishes what was submitted. No call may be under way or follow. May be repeated.
  void Close() { queue_.Close(); }

  // Returns what is known of an append. REQUIRES: the shard is open for writing
  std::optional<KnownAppend> FindAppend(std::string_view id) const { return append_ids_->Find(id); }
  // Returns by how much the last timestamp that was assigned was ahead of the clock then.
  std::int64_t clock_ahead_us() const { return clock_ahead_us_; }

 private:
  // What the queue calls.
  void CommitGroup(std::span<ShardCommit* const> group) TOPICDB_EXCLUDES(shard_.mutex);

  std::unique_ptr<CommitBuilder> NewBuilder(const ExpectedWrites& expected)
      TOPICDB_REQUIRES(shard_.mutex);
  // Returns whether an append was stored before. Sets its outcome then, or if the id is another
  // append's.
  bool IsRepeated(ShardCommit* commit) const TOPICDB_REQUIRES(shard_.mutex);
  // Commits what a job has staged, unless it was committed before.
  Status CommitStaged(ShardCommit* commit) TOPICDB_REQUIRES(shard_.mutex);
  // Writes what the builder has gathered for `commits`, makes it visible, and sets their outcome.
  void WriteBuilt(CommitBuilder* builder, std::span<ShardCommit* const> commits)
      TOPICDB_REQUIRES(shard_.mutex);
  // Finishes the batch of the builder, and writes it. `logged`: whether it is in the log.
  Status WriteBatch(CommitBuilder* builder, bool* logged) TOPICDB_REQUIRES(shard_.mutex);
  // Tells those who need to know what the commits have deleted or replaced.
  void NoteDeletes(const CommitBuilder& builder, std::span<ShardCommit* const> commits)
      TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
  DiskUsage& disk_;
  ShardSealing& sealing_;
  TransactionCheck& transactions_;
  MergeDeletes& merge_deletes_ TOPICDB_GUARDED_BY(shard_.mutex);
  ShardJobs& jobs_;
  const std::unique_ptr<AppendIds> append_ids_;  // thread-safe; empty in a read-only shard
  std::atomic<std::int64_t> clock_ahead_us_{0};
  CommitQueue<ShardCommit> queue_;  // last: its thread ends before anything else goes
};

}  // namespace topicdb
