// What whoever administers a cluster has its sites do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "replication/cluster/site_service.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_group.h"
#include "topicdb/interrupt.h"
#include "topicdb/status.h"
#include "topicdb/types/replicas.h"

namespace topicdb::replication {

// Changes the sites of a cluster and compares what they have, from whichever site it is called. The
// Site owns it, and it has no state of its own. Thread-safe.
class ClusterAdministration {
 public:
  // `group` and `service` must outlive it. `path` is the directory of this site, for errors.
  ClusterAdministration(ClusterGroup* group, SiteService* service, std::string path)
      : group_(*group), service_(*service), path_(std::move(path)) {}

  // These do what the methods of Site say that have the same names. `shards` are those that this
  // site has opened, or null.
  Status Leave(const std::string& name, std::chrono::milliseconds patience);
  Status Forget(const std::string& name, std::chrono::milliseconds patience);
  Status StepDown(const std::string& name);
  Result<std::size_t> Balance(const SiteShards* shards);
  Result<std::uint32_t> Upgrade(std::chrono::milliseconds patience);
  Status Heal(const std::string& name, std::uint32_t shard);
  Result<std::vector<ReplicaVerification>> Verify(const SiteShards* shards,
                                                  std::chrono::milliseconds patience,
                                                  const InterruptCheck& interrupted);

 private:
  // Returns a site, or kCluster if there is none of that name.
  Result<ClusterSite> FindSite(const std::string& name) const;
  // Has a site leave that is among the sites.
  Status Remove(const ClusterSite& site, std::chrono::steady_clock::time_point deadline);

  ClusterGroup& group_;
  SiteService& service_;
  const std::string path_;
};

}  // namespace topicdb::replication
