// What readers see of jobs that some shards have applied and others have not.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread/mutex.h"
#include "store/shard/shard.h"
#include "store/read/stream_plan.h"

namespace topicdb {

// Commits of jobs that have messages in another of these shards which is not there yet, in order;
// by moment.
std::vector<std::vector<SerialRange>> UnfinishedJobs(const std::vector<ShardMoment>& moments,
                                                     std::int64_t now_us);

// Whether a shard may lack jobs that another one no longer tells of, or there were none for it.
bool AreFarApart(const std::vector<ShardMoment>& moments);

// Hides them, so that a job is seen in all of the shards or in none. Thread-safe.
class JobCurtain {
 public:
  void Hide(std::vector<ShardMoment>* moments) TOPICDB_EXCLUDES(mutex_);

 private:
  bool IsKnownFinished(const std::vector<ShardMoment>& moments) TOPICDB_EXCLUDES(mutex_);

  Mutex mutex_;  // the innermost
  // Jobs by moment, of which all were finished: so it need not be found out by every reader.
  std::vector<SharedJobs> finished_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
