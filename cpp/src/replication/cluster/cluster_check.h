// Compares the replicas of all shards of a database.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "replication/cluster/site_service.h"
#include "replication/digest/digest_comparison.h"
#include "replication/state/cluster_state.h"
#include "store/catalog/retention_file.h"
#include "topicdb/interrupt.h"
#include "topicdb/status.h"
#include "topicdb/types/replicas.h"

namespace topicdb::replication {

// Has all sites of a cluster read their replicas of one shard after the other, each as it is after
// the same entry of the log, and compares them. Whoever wants the comparison makes one, and calls
// Run once.
class ClusterCheck {
 public:
  using Clock = std::chrono::steady_clock;

  // `service` must outlive it.
  ClusterCheck(SiteService* service, ClusterState state, RetentionRules rules)
      : service_(*service), state_(std::move(state)), rules_(std::move(rules)) {}

  // Returns what it has found, by shard and site. What was not compared until the deadline is among
  // it. Returns kInterrupted.
  Result<std::vector<ReplicaVerification>> Run(std::uint32_t shards, Clock::time_point deadline,
                                               const InterruptCheck& interrupted);

 private:
  // Adds an entry for digests to the log of a shard, at whatever site leads it. Returns kNotLeader
  // if none does.
  Result<LogPlace> Begin(std::uint32_t shard, Clock::time_point deadline,
                         const InterruptCheck& interrupted);
  // Waits for the digests of all sites.
  Result<DigestsBySite> Collect(std::uint32_t shard, const LogPlace& place,
                                Clock::time_point deadline, const InterruptCheck& interrupted);
  // Asks a site for its digest. Returns kStale if it has none yet.
  Result<ReplicaDigest> AskOnce(const ClusterSite& site, const SiteCall& call);
  std::string Describe(const std::string& family) const;

  SiteService& service_;
  const ClusterState state_;
  const RetentionRules rules_;
  std::map<std::string, Clock::time_point> silent_since_;  // sites that do not answer
};

}  // namespace topicdb::replication
