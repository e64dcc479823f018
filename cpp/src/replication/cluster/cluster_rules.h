// The retention rules on which the sites of a cluster agree.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/thread/mutex.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_group.h"
#include "store/view/shard_environment.h"

namespace topicdb::replication {

// Takes the retention rules from the state of the cluster to the database of this site: to the file
// `retention`, to the environment, and to the shards that the site leads. A thread of its own does
// that after each change, whichever site has made it. The source of the shards owns it, and stops
// it before it closes them. Thread-safe.
//
// Lock rule: mutex_ comes after the mutex of the group. Nothing else is called with it held.
class ClusterRules {
 public:
  // `group` must outlive it. `patience` is how long Propose waits for a majority.
  ClusterRules(ClusterGroup* group, std::shared_ptr<const SiteShards> shards,
               std::shared_ptr<const ShardEnvironment> environment,
               std::chrono::milliseconds patience);
  ~ClusterRules() { Stop(); }
  ClusterRules(const ClusterRules&) = delete;
  ClusterRules& operator=(const ClusterRules&) = delete;

  // Makes these the rules of all sites. Returns kConflict if they do not follow those that the
  // sites have agreed on by now, which are those of the environment then, and otherwise what
  // ClusterGroup::Propose returns.
  Status Propose(const RetentionRules& rules) TOPICDB_EXCLUDES(mutex_);
  // Ends the thread. May be repeated.
  void Stop() TOPICDB_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  // What the thread does. The file has the rules of this version.
  void Work(std::uint64_t stored) TOPICDB_EXCLUDES(mutex_);
  // Waits until the state has changed more often than `seen` says, and counts the changes there.
  // Returns false at the deadline, and once Stop was called.
  bool AwaitChange(std::uint64_t* seen, Clock::time_point deadline) TOPICDB_EXCLUDES(mutex_);
  // Returns the state in which these rules may be proposed, since they follow its rules. Waits for
  // it if a shard has brought later rules here than the state has yet.
  Result<ClusterState> StateBefore(const RetentionRules& rules) TOPICDB_EXCLUDES(mutex_);
  // Makes the rules of the state those of the environment.
  Status Take(const ClusterState& state) const;

  ClusterGroup& group_;
  const std::shared_ptr<const SiteShards> shards_;
  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::chrono::milliseconds patience_;

  Mutex mutex_;
  CondVar changed_;
  std::uint64_t changes_ TOPICDB_GUARDED_BY(mutex_) = 0;  // of the state
  bool stops_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread worker_;
};

}  // namespace topicdb::replication
