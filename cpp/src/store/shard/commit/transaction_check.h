// Decides whether a transaction may be applied.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "commit/conflict_memory.h"
#include "store/shard/commit/commit_builder.h"
#include "store/shard/commit/shard_commit.h"
#include "store/shard/state/shard_state.h"

namespace topicdb {

// Remembers what is committed while transactions are open, here or at another replica, and checks
// the generation, the conflicts and the preconditions of transactions. A Shard owns it. Only the
// holder of the shard's commit mutex may call it.
class TransactionCheck {
 public:
  explicit TransactionCheck(const ShardState& shard)
      : shard_(shard), memory_(shard.environment->commit.conflict_entries_max) {}

  // Returns OK if the transaction of `commit` may be applied. Returns kReadOnly if its generation
  // takes no messages. Returns kConflict or kPrecondition, and then sets the fault of the commit.
  Status Check(ShardCommit* commit) const TOPICDB_REQUIRES(shard_.mutex);
  // Remembers commits that have become visible while a transaction is open. The builder has built
  // them.
  void Remember(const CommitBuilder& builder, std::span<ShardCommit* const> commits)
      TOPICDB_REQUIRES(shard_.mutex);
  // Forgets everything. Transactions that began before the last commit are refused from now on.
  void Clear() TOPICDB_REQUIRES(shard_.mutex) { memory_.Clear(shard_.commit.serial); }

 private:
  Status CheckConflicts(ShardCommit* commit) const TOPICDB_REQUIRES(shard_.mutex);
  Status CheckRequirements(ShardCommit* commit) const TOPICDB_REQUIRES(shard_.mutex);
  Status CheckGeneration(const ShardCommit& commit) const TOPICDB_REQUIRES(shard_.mutex);

  const ShardState& shard_;
  ConflictMemory memory_ TOPICDB_GUARDED_BY(shard_.mutex);
  std::chrono::steady_clock::time_point aged_at_ TOPICDB_GUARDED_BY(shard_.mutex);
};

}  // namespace topicdb
