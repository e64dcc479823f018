#include "replication/cluster/cluster_administration.h"

#include <map>
#include <set>
#include <utility>

#include "replication/cluster/cluster_check.h"
#include "replication/deadline.h"
#include "replication/entry.h"
#include "replication/raft/format.h"
#include "replication/raft/leader_balance.h"
#include "replication/state/cluster_state.h"
#include "store/catalog/retention_file.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

}  // namespace

Result<ClusterSite> ClusterAdministration::FindSite(const std::string& name) const {
  const ClusterState state = group_.state();
  if (!state.is_founded()) return ClusterFault("the cluster has not been founded yet");
  const ClusterSite* const found = state.FindSite(name);
  if (found != nullptr) return *found;
  return state.NoSuchSite(name);
}

Status ClusterAdministration::Leave(const std::string& name, milliseconds patience) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterSite site, FindSite(name));
  return Remove(site, Clock::now() + patience);
}

Status ClusterAdministration::Forget(const std::string& name, milliseconds patience) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterSite site, FindSite(name));
  if (service_.IsUp(site)) {
    return ClusterFault("site '" + name + "' is up: have it leave");
  }
  return Remove(site, Clock::now() + patience);
}

Status ClusterAdministration::Remove(const ClusterSite& site, Clock::time_point deadline) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kSetState;
  command.site = site.name;
  command.replica = site.replica;
  command.state = SiteState::kLeaving;
  Status marked = group_.Propose(command, LeftUntil(deadline));
  // Somebody else may have begun.
  if (!marked.ok() && marked.code() != Code::kConflict) return marked;
  return group_.AwaitLeft(site.replica, deadline);
}

Status ClusterAdministration::StepDown(const std::string& name) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterSite site, FindSite(name));
  return service_.StepDown(site).WithContext("site '" + name + "'");
}

Result<std::size_t> ClusterAdministration::Balance(const SiteShards* shards) {
  if (shards == nullptr) return ClusterFault("open the database of this site first");
  std::map<std::uint32_t, std::uint64_t> leaders;  // by shard
  for (const auto& [index, replica] : shards->All()) leaders[index] = replica->position().leader;
  const ClusterState state = group_.state();
  std::set<std::uint64_t> members;
  for (const ClusterSite& site : state.sites) {
    if (site.state == SiteState::kMember && service_.IsUp(site)) members.insert(site.replica);
  }
  std::size_t moved = 0;
  for (const auto& move : PlanBalance(leaders, members)) {
    TOPICDB_RETURN_IF_ERROR(
        service_.HandOver(*state.FindReplica(move.from), move.shard, *state.FindReplica(move.to)));
    ++moved;
  }
  return moved;
}

Result<std::uint32_t> ClusterAdministration::Upgrade(milliseconds patience) {
  return service_.Upgrade(patience);
}

Status ClusterAdministration::Heal(const std::string& name, std::uint32_t shard) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterSite site, FindSite(name));
  return service_.Heal(site, shard).WithContext("site '" + name + "'");
}

Result<std::vector<ReplicaVerification>> ClusterAdministration::Verify(
    const SiteShards* shards, milliseconds patience, const InterruptCheck& interrupted) {
  if (shards == nullptr) return ClusterFault("open the database of this site first");
  ClusterState state = group_.state();
  TOPICDB_RETURN_IF_ERROR(
      CheckInForce(FormatOf(EntryKind::kDigest), state.format).WithContext("digests"));
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules,
                           DecodeRetention(state.retention, path_ + "/site/cluster"));
  ClusterCheck check(&service_, std::move(state), std::move(rules));
  return check.Run(static_cast<std::uint32_t>(shards->All().size()), Clock::now() + patience,
                   interrupted);
}

}  // namespace topicdb::replication
