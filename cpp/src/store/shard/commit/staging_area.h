// Keeps what jobs have staged in a shard that has replicas, until it is committed or removed.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <rocksdb/write_batch.h>

#include "base/thread/mutex.h"
#include "store/job/staged_job.h"
#include "store/shard/commit/shard_commit.h"
#include "store/shard/state/shard_state.h"

namespace topicdb {

// Keeps the records of staged_records.h of a shard. They go through the log as data that nobody
// sees. A Shard owns it. Thread-safe.
//
// A job may be staged, removed, and staged anew. Whoever removes it may be late, since the sites
// agree on that before, and another one may have gone on meanwhile. So a removal names the epoch of
// the jobs at which it was decided, and does nothing if a later attempt to commit the job has
// chosen its files.
class StagingArea {
 public:
  explicit StagingArea(ShardState& shard) : shard_(shard) {}

  // Does a step. Returns kNotFound if a file that is chosen is not here, kCorruption if the shard
  // does not know the class of a part, kInvalidArgument if a job is too large for a generation with
  // the layout skipstream, and what the log returns.
  Status Do(const StagingStep& step) TOPICDB_EXCLUDES(mutex_, shard_.mutex);
  // Returns what an attempt has chosen. Returns kCorruption if something of it is missing.
  Result<StagedMessages> Load(const StagedJob& job) const TOPICDB_EXCLUDES(shard_.mutex);
  // Copies the pages of the parts into the current slabs of their classes, where nobody sees them,
  // and notes these slabs in `staged`. Ends early with kClosed if `canceled` is set.
  Status CopyPages(const std::atomic<bool>& canceled, StagedMessages* staged) const
      TOPICDB_EXCLUDES(shard_.mutex);
  // Frees the space of what was removed, if that is much. Ends early if `canceled` is set. Any
  // replica may do so.
  Status RemoveGarbage(std::atomic<bool>* canceled) const;

 private:
  Status Put(const StagingStep& step) TOPICDB_REQUIRES(mutex_);
  Status Choose(const StagingStep& step) TOPICDB_REQUIRES(mutex_) TOPICDB_EXCLUDES(shard_.mutex);
  Status Remove(const StagingStep& step) TOPICDB_REQUIRES(mutex_);
  // Checks that the parts of a choice can be committed.
  Status CheckParts(const std::vector<StagedPart>& parts) const TOPICDB_EXCLUDES(shard_.mutex);
  // Adds what one file has for this shard, without blocks.
  Status AddParts(const std::string& job, const std::string& file,
                  std::vector<StagedPart>* parts) const;
  Status LoadBlocks(const std::string& job, StagedPart* part) const;
  Status CopyPart(const StagedMessages& staged, const StagedPart& part, const Slab& slab,
                  const std::atomic<bool>& canceled) const;
  // Returns Ok if this replica leads. One that leads no more may lack what others have.
  Status ConfirmLead() const;
  // Returns a record, or kNotFound.
  Result<std::string> Get(const std::string& key) const;
  Status Write(rocksdb::WriteBatch* batch) const;

  ShardState& shard_;
  // Held during a step, so that nothing of a job is removed while its files are chosen.
  Mutex mutex_;
};

}  // namespace topicdb
