// Hides from readers the jobs that some shards have applied and others have not.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread/mutex.h"
#include "store/read/stream_plan.h"
#include "store/shard/shard.h"
#include "topicdb/types/times.h"

namespace topicdb {

// Returns, for each moment, the commits of unfinished jobs in ascending order. An unfinished job
// has messages for another of these shards, which has not applied the job yet.
std::vector<std::vector<SerialRange>> UnfinishedJobs(const std::vector<ShardMoment>& moments,
                                                     WallTime now);

// Returns whether a shard may lack jobs that another shard has forgotten already. May return true
// although these jobs have no messages for the shard.
bool AreFarApart(const std::vector<ShardMoment>& moments);

// Hides unfinished jobs, so that readers see a job in all of the shards or in none. A DatabaseImpl
// owns it. Thread-safe.
class JobCurtain {
 public:
  // Replaces each view that has commits of unfinished jobs by a view without these commits.
  void Hide(std::vector<ShardMoment>* moments) TOPICDB_EXCLUDES(mutex_);

 private:
  // Returns whether finished_ has the jobs of these moments.
  bool IsKnownFinished(const std::vector<ShardMoment>& moments) TOPICDB_EXCLUDES(mutex_);

  Mutex mutex_;  // the innermost lock
  // The jobs of the last moments at which all jobs were finished, so that later readers of the same
  // jobs need not find that out again.
  std::vector<SharedJobs> finished_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
