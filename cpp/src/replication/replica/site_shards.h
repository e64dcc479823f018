// The shards of a database whose replicas a site has.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/raft/raft_site.h"
#include "replication/replica/replica.h"
#include "store/shard/shard_source.h"

namespace topicdb::replication {

// Opens a replica of each shard of a database. The database owns it. Thread-safe.
//
// Lock rule: mutex_ only guards the table of replicas. Nothing of a replica is called with it held.
class SiteShards : public ShardSource {
 public:
  // The group of a shard is options.group plus the number of the shard. `site` must outlive it.
  SiteShards(RaftSite* site, std::shared_ptr<const ShardEnvironment> environment,
             ReplicaOptions options);

  Result<std::shared_ptr<Shard>> Open(std::uint32_t index) override TOPICDB_EXCLUDES(mutex_);
  void Watch(std::function<void(std::shared_ptr<Shard>)> replace) override TOPICDB_EXCLUDES(mutex_);
  // Has the shards follow rules on which the sites have agreed: those that this site leads, and
  // waits until the leaders of the others have done the same. `shards` is not used.
  Status SetRules(const RetentionRules& rules,
                  const std::vector<std::shared_ptr<Shard>>& shards) override
      TOPICDB_EXCLUDES(mutex_);
  // Has the shards that this site leads follow the rules of the environment. One that it comes to
  // lead later does so then.
  void AdoptRules() const TOPICDB_EXCLUDES(mutex_);
  // Hands leadership over, where it can, and closes the replicas at the same time.
  Status Close(const std::vector<std::shared_ptr<Shard>>& shards) override TOPICDB_EXCLUDES(mutex_);
  bool is_replicated() const override { return true; }
  // Asks the replicas side by side.
  Status AwaitAcknowledged(std::chrono::milliseconds patience) override TOPICDB_EXCLUDES(mutex_);

  // Returns the replica of a shard, or null if Open has not opened it, or Close was called. Only
  // what tells the state of a replica may be called once Close was.
  std::shared_ptr<Replica> Find(std::uint32_t index) const TOPICDB_EXCLUDES(mutex_);
  // Returns all replicas that Find finds, by shard.
  std::map<std::uint32_t, std::shared_ptr<Replica>> All() const TOPICDB_EXCLUDES(mutex_);
  // Returns what the consensus says of the group of a shard.
  Result<RaftStatus> StatusOf(std::uint32_t index) const { return site_.StatusOf(GroupOf(index)); }

 private:
  // Does the same for one shard.
  Status AwaitAcknowledged(std::uint32_t index, const Replica& replica,
                           std::chrono::milliseconds patience);
  // Waits until each shard follows the rules of this version, or later ones.
  Status AwaitRules(std::uint64_t version) const TOPICDB_EXCLUDES(mutex_);
  std::uint64_t GroupOf(std::uint32_t index) const { return options_.group + index; }

  RaftSite& site_;
  const std::shared_ptr<const ShardEnvironment> environment_;
  const ReplicaOptions options_;
  mutable Mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<Replica>> replicas_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb::replication
