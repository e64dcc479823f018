// What a site does for the jobs of a cluster, beside calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_group.h"

namespace topicdb::replication {

// Applies the jobs that are committed to the shards that this site leads. While the site leads the
// group of the cluster, also removes what is staged of jobs that are over, aborted or left behind,
// and has the cluster forget those that are over. A thread of its own does that after each change
// of the state, and again and again while a job is under way. What it does may be done twice, so
// that another site can go on. ClusterJobs owns it, and stops it before the shards are closed.
// Thread-safe.
//
// Lock rule: mutex_ comes after the mutex of the group. Nothing else is called with it held.
class JobWorker {
 public:
  // `group` must outlive it. `patience` is how long it waits for a majority.
  JobWorker(ClusterGroup* group, std::shared_ptr<const SiteShards> shards,
            std::chrono::milliseconds patience);
  ~JobWorker() { Stop(); }
  JobWorker(const JobWorker&) = delete;
  JobWorker& operator=(const JobWorker&) = delete;

  // Ends the thread. May be repeated.
  void Stop() TOPICDB_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  void Work() TOPICDB_EXCLUDES(mutex_);
  // Waits until the state has changed more often than `seen` says, or for the deadline, and counts
  // the changes there. Returns false once Stop was called.
  bool AwaitChange(std::uint64_t* seen, Clock::time_point deadline) TOPICDB_EXCLUDES(mutex_);
  // Applies the jobs to the shards that are led here.
  void ApplyAll(const ClusterState& state) const;
  // Removes what is staged of the jobs that are over, and has them forgotten.
  void FinishAll(const ClusterState& state) const;
  // Removes what was left behind by jobs that nobody has committed or aborted.
  void Sweep(const ClusterState& state);

  ClusterGroup& group_;
  const std::shared_ptr<const SiteShards> shards_;
  const std::chrono::milliseconds patience_;
  std::atomic<bool> canceled_{false};

  Mutex mutex_;
  CondVar changed_;
  std::uint64_t changes_ TOPICDB_GUARDED_BY(mutex_) = 0;  // of the state
  bool stops_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread worker_;
};

// Returns the jobs of which something is staged in a shard, and all of it was begun before
// `before`.
Result<std::vector<std::string>> JobsStagedBefore(const ShardView& first_shard, WallTime before);

}  // namespace topicdb::replication
