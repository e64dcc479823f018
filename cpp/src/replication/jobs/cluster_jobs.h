// Jobs in the database of a cluster.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replication/jobs/job_worker.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_group.h"
#include "store/job/replicated_jobs.h"
#include "store/job/staged_job.h"
#include "store/view/shard_environment.h"

namespace topicdb::replication {

// Shares, commits and aborts jobs at any site. What a task has staged goes into the shards before
// the commit, so all replicas come to have it. The commit itself is a command to the cluster. The
// source of the shards owns it, and stops it before it closes them. Thread-safe.
class ClusterJobs : public ReplicatedJobs {
 public:
  // `group` must outlive it. `patience` is how long it waits for a majority.
  ClusterJobs(ClusterGroup* group, std::shared_ptr<SiteShards> shards,
              std::shared_ptr<const ShardEnvironment> environment,
              std::chrono::milliseconds patience);

  Status Share(const std::string& job, const std::string& file) override;
  Result<JobReceipt> Commit(const JobCommit& commit) override;
  Status Abort(const std::string& job, std::chrono::microseconds timeout) override;
  // Applies no more jobs. May be repeated.
  void Stop() { worker_.Stop(); }

 private:
  using Clock = std::chrono::steady_clock;

  // What an attempt to commit a job has chosen: the job, and the files by shard.
  struct Chosen {
    ClusterJob job;
    std::map<std::uint32_t, StagedChoice> choices;
  };

  // Returns kCluster if some site may know no jobs, since an earlier format is in force.
  Status CheckFormat() const;
  // Shares what is in the directory of this site of the files that are to be committed.
  Status ShareRest(const JobCommit& commit);
  // Tries to commit once. Returns nothing if the state has changed meanwhile, so that it must be
  // done again.
  Result<std::optional<JobReceipt>> Try(const JobCommit& commit, Clock::time_point deadline,
                                        Clock::time_point applied_by);
  // Finds out what is to be committed. Returns kNotFound if a file was not shared or is gone.
  Result<Chosen> Choose(const JobCommit& commit, std::uint64_t epoch) const;
  // Has the shards choose it, and makes it a job of the cluster. Returns kConflict if that must be
  // done anew.
  Status Decide(const Chosen& chosen, Clock::time_point deadline);
  // Waits until the shards have applied a job, or for the deadline.
  JobReceipt AwaitApplied(const ClusterJob& job, Clock::time_point deadline) const;
  // Returns the receipt of a job that some shard has applied before, or of a later one of its
  // sequence. Returns nothing if the shards know of none.
  std::optional<JobReceipt> FindReceipt(const JobCommit& commit) const;
  // Waits until the state of the cluster is another one.
  void AwaitChange(const ClusterState& state, Clock::time_point deadline) const;
  // Has the cluster remove what is staged of a job.
  Status Remove(const std::string& job, std::chrono::milliseconds patience);
  // Returns whether something of a job is in a shard here.
  bool IsStaged(const std::string& job) const;
  // Returns a record of what is staged in shard 0, as it is here.
  Result<std::string> FindInFirst(const std::string& key) const;

  ClusterGroup& group_;
  const std::shared_ptr<SiteShards> shards_;
  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::chrono::milliseconds patience_;
  JobWorker worker_;  // last
};

}  // namespace topicdb::replication
