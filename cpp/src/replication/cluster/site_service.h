// What a site does for other sites, and for programs that want to become one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/cluster/site_call.h"
#include "replication/raft/raft_site.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_group.h"

namespace topicdb::replication {

// Answers the calls of site_call.h, and makes them at other sites. The Site owns it, and closes it
// before the group. Thread-safe.
class SiteService : private RaftAnswerer {
 public:
  // `group_number` is that of the cluster in the consensus. `newest_format` is the newest one with
  // which this site can work.
  SiteService(RaftSite* site, ClusterGroup* group, std::uint64_t group_number,
              std::uint32_t newest_format);
  ~SiteService() override;

  // Says which replicas the database has that this site has opened.
  void SetShards(std::shared_ptr<SiteShards> shards) TOPICDB_EXCLUDES(mutex_);
  // Returns whether a site answers.
  bool IsUp(const ClusterSite& other);
  // Has a site hand over whatever it leads, to sites that are up. Returns kNotLeader if the site
  // does not answer.
  Status StepDown(const ClusterSite& other) TOPICDB_EXCLUDES(mutex_);
  // Has a site hand over one shard. Returns kNotLeader if it does not lead it, or does not answer.
  Status HandOver(const ClusterSite& from, std::uint32_t shard, const ClusterSite& to)
      TOPICDB_EXCLUDES(mutex_);
  // Puts the newest format in force with which all sites can work, and returns it. Returns
  // kCluster, and which sites are in the way, if it is in force and some site could work with a
  // later one, or if a site does not answer; and what ClusterGroup::Propose returns.
  Result<std::uint32_t> Upgrade(std::chrono::milliseconds patience) TOPICDB_EXCLUDES(mutex_);
  // Has a site fill its replica of a shard anew from another site, and does not wait until that is
  // done. Returns kNotLeader if the site does not answer, and what Replica::Heal returns.
  Status Heal(const ClusterSite& at, std::uint32_t shard) TOPICDB_EXCLUDES(mutex_);
  // Asks a site, which may be this one, and returns its answer, whose status is not that of the
  // call. Returns what AskSite returns.
  Result<SiteAnswer> Ask(const ClusterSite& site, const SiteCall& call,
                         std::chrono::milliseconds patience,
                         std::chrono::milliseconds connect_patience) TOPICDB_EXCLUDES(mutex_);

 private:
  // Returns the newest format with which a site can work. Returns kNotLeader if it does not answer.
  Result<std::uint32_t> NewestFormatOf(const ClusterSite& other) TOPICDB_EXCLUDES(mutex_);
  Result<std::string> Answer(std::string_view request) override TOPICDB_EXCLUDES(mutex_);
  SiteAnswer Do(const SiteCall& call) TOPICDB_EXCLUDES(mutex_);
  // Does it here, or at another site.
  Status DoAt(const ClusterSite& site, const SiteCall& call) TOPICDB_EXCLUDES(mutex_);
  // Adds a site to the cluster.
  SiteAnswer AddSite(const SiteCall& call);
  // Says whether a site is a member of the cluster: kCluster if it is not. Has all sites know where
  // it is now.
  SiteAnswer StandingOf(const SiteCall& call);
  Status StepDownHere() TOPICDB_EXCLUDES(mutex_);
  // Makes or returns a digest of a shard.
  SiteAnswer DigestOf(const SiteCall& call) TOPICDB_EXCLUDES(mutex_);
  // Returns the replica of a shard, or kNotLeader if this site has not opened it.
  Result<std::shared_ptr<Replica>> FindReplica(std::uint32_t shard) const TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  ClusterGroup& group_;
  const std::uint64_t group_number_;
  const std::uint32_t newest_format_;
  mutable Mutex mutex_;
  std::shared_ptr<SiteShards> shards_ TOPICDB_GUARDED_BY(mutex_);
};

// Returns the call by which a replica asks whether it is a member of this cluster, and says where
// it is, or "".
SiteCall StandingCall(const ClusterId& cluster, std::uint64_t replica, const std::string& peers);

// Asks the site of a replica, and returns its answer, whose status is not that of the call. Returns
// what RaftSite::Ask and DecodeSiteAnswer return.
Result<SiteAnswer> AskSite(RaftSite* site, std::uint64_t replica, const SiteCall& call,
                           std::chrono::milliseconds patience,
                           std::chrono::milliseconds connect_patience);

// Asks sites of a cluster, one after the other, and returns what the one says that answers. For
// programs that are no site, or may not be found. `options` has the certificates. Asks each at
// least once. Returns kNotLeader if no site answers, or has a majority, within `patience`; and
// kCluster if a site says so.
Result<SiteAnswer> AskCluster(const std::vector<std::string>& addresses,
                              const RaftSiteOptions& options, const SiteCall& call,
                              std::chrono::milliseconds patience);

}  // namespace topicdb::replication
