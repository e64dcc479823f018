// What a shard knows of jobs, and what it does with the files that they have staged.
#pragma once

#include <vector>

#include "store/shard/commit/shard_commit.h"
#include "store/shard/state/shard_state.h"
#include "topicdb/job.h"

namespace topicdb {

// Returns what is to be noted of a job that commits `staged`, except for what it has in the shard.
meta::JobRecord JobAfter(const meta::JobRecords& jobs, const StagedMessages& staged);

// The jobs of a shard. A Shard owns it. Thread-safe.
class ShardJobs {
 public:
  explicit ShardJobs(ShardState& shard) : shard_(shard) {}

  // Returns the jobs that the shard has applied.
  std::vector<JobInfo> Infos() const;
  // Returns whether what `commit` has staged was committed before, and sets its outcome then.
  bool IsRepeated(ShardCommit* commit) const TOPICDB_REQUIRES(shard_.mutex);
  // Makes the staged pages those of the slabs, where nobody sees them yet. Returns how many blocks
  // they have.
  Result<std::uint64_t> TakePages(const StagedMessages& staged) TOPICDB_REQUIRES(shard_.mutex);
  // Forgets jobs without a sequence that are older than a week.
  Status ForgetOld() TOPICDB_EXCLUDES(shard_.mutex);
  // Removes what jobs have stored and not committed. REQUIRES: no commit is under way
  Status RemoveUnplaced() TOPICDB_EXCLUDES(shard_.mutex);

 private:
  Status TakePart(const StagedMessages& staged, const StagedPart& part)
      TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
};

}  // namespace topicdb
