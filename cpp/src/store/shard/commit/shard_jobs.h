// Knows the jobs that a shard has applied, and takes over the files that jobs have staged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/shard/commit/shard_commit.h"
#include "store/shard/state/shard_state.h"
#include "topicdb/job.h"

namespace topicdb {

// Returns the record of a job that commits `staged`, with the earlier jobs of its sequence. The
// caller must fill in what depends on the commit: `last`, `applied_at` and `messages`.
meta::JobRecord JobAfter(const meta::JobRecords& jobs, const StagedMessages& staged);
// Returns what a shard that has applied `jobs` remembers of a job of this sequence and number, or
// of a later job of the sequence. Returns null if it has applied neither.
const meta::JobSpan* FindApplied(const meta::JobRecords& jobs, const std::string& sequence,
                                 std::uint64_t number);

// Does for a shard what its commits of jobs need before and after the commit itself. A Shard owns
// it. Thread-safe.
class ShardJobs {
 public:
  explicit ShardJobs(ShardState& shard) : shard_(shard) {}

  // Returns the jobs that the shard has applied.
  std::vector<JobInfo> Infos() const;
  // Returns whether the job of `commit`, or a later one of its sequence, was committed before. Then
  // sets the outcome of the commit.
  bool IsRepeated(ShardCommit* commit) const TOPICDB_REQUIRES(shard_.mutex);
  // Moves the staged pages into the slabs, where nobody sees them yet. Returns the number of staged
  // blocks. Does not move what an earlier try has moved. Of pages that were copied before, checks
  // that they are in the current slabs: otherwise returns kConflict. Returns kCorruption or
  // kStorage.
  Result<std::uint64_t> TakePages(const StagedMessages& staged) TOPICDB_REQUIRES(shard_.mutex);
  // Forgets jobs without a sequence that are older than a week.
  Status ForgetOld() TOPICDB_EXCLUDES(shard_.mutex);
  // Removes the pages that jobs have moved into slabs and not committed.
  // REQUIRES (RemoveUnplaced): no commit of a job is under way
  Status RemoveUnplaced() TOPICDB_EXCLUDES(shard_.mutex);

 private:
  Status TakePart(const StagedMessages& staged, const StagedPart& part)
      TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
};

}  // namespace topicdb
