// Applies the jobs that are committed to an open database.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/thread/mutex.h"
#include "store/database/job_watcher.h"
#include "store/database/open_shards.h"
#include "store/job/job_files.h"
#include "topicdb/types/times.h"

namespace topicdb {

// Applies committed jobs to the shards that are open here, and notices further ones. A DatabaseImpl
// owns it, and starts it unless the database is read-only. Any thread may call it.
//
// REQUIRES (Start, Apply): the shards are open.
class DatabaseJobs {
 public:
  // `shards` must live longer. `closing` becomes true when the database closes.
  DatabaseJobs(std::shared_ptr<const ShardEnvironment> environment, const OpenShards& shards,
               const std::atomic<bool>& closing)
      : environment_(std::move(environment)), shards_(shards), closing_(closing) {}

  // Applies committed jobs, removes what earlier jobs have left behind, and starts a thread that
  // applies the jobs that are committed from then on. If the shards are replicas, only removes what
  // tasks have left behind: ReplicatedJobs does the rest.
  Status Start() TOPICDB_EXCLUDES(mutex_);
  // Ends the thread.
  void Stop() { watcher_.reset(); }
  // Applies committed jobs in their order. Returns kCorruption if an intent or a staged file is
  // damaged or belongs to another database, and the errors of Shard::Commit.
  Status Apply() TOPICDB_EXCLUDES(mutex_);
  // Returns a mutex. While the caller holds it, no job is applied here.
  Mutex& mutex() TOPICDB_RETURN_CAPABILITY(mutex_) { return mutex_; }

 private:
  // Applies an intent to a shard and writes the outcome. `pending_since` is when the oldest job
  // was committed that has not been applied everywhere.
  Status ApplyTo(Shard* shard, const JobIntent& intent, WallTime pending_since)
      TOPICDB_REQUIRES(mutex_);

  const std::shared_ptr<const ShardEnvironment> environment_;
  const OpenShards& shards_;
  const std::atomic<bool>& closing_;
  Mutex mutex_;                          // taken before all others except lifecycle()
  std::unique_ptr<JobWatcher> watcher_;  // only Start and Stop use it
};

}  // namespace topicdb
