// What a site tells of its cluster, and does to it, for whoever administers that.
#include <set>
#include <utility>

#include "replication/cluster/cluster_check.h"
#include "replication/cluster/lost_majority.h"
#include "replication/cluster/site_service.h"
#include "replication/deadline.h"
#include "replication/entry.h"
#include "replication/raft/format.h"
#include "replication/raft/leader_balance.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_group.h"
#include "replication/state/cluster_state.h"
#include "store/catalog/retention_file.h"
#include "topicdb/database/site.h"

namespace topicdb {

using replication::CheckInForce;
using replication::ClusterCheck;
using replication::ClusterCommand;
using replication::ClusterCommandKind;
using replication::ClusterState;
using replication::EntryKind;
using replication::LeftUntil;
using replication::RaftPosition;
using replication::RaftSiteOptions;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

}  // namespace

Result<ClusterSite> Site::FindSite(const std::string& name) const {
  const ClusterState state = group_->state();
  if (!state.is_founded()) return ClusterFault("the cluster has not been founded yet");
  const ClusterSite* const found = state.FindSite(name);
  if (found != nullptr) return *found;
  return state.NoSuchSite(name);
}

Result<StoredSite> Site::Load(const std::string& path) { return replication::LoadStoredSite(path); }

Status Site::ForgetOthers(const SiteOptions& options) {
  RaftSiteOptions raft;
  raft.authority = options.authority;
  raft.certificate = options.certificate;
  raft.key = options.key;
  return replication::ForgetOthers(options.path, std::move(raft));
}

Status Site::Leave(const std::string& name, milliseconds patience) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterSite site, FindSite(name));
  return Remove(site, Clock::now() + patience);
}

Status Site::Forget(const std::string& name, milliseconds patience) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterSite site, FindSite(name));
  if (service_->IsUp(site)) {
    return ClusterFault("site '" + name + "' is up: have it leave");
  }
  return Remove(site, Clock::now() + patience);
}

Status Site::Remove(const ClusterSite& site, Clock::time_point deadline) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kSetState;
  command.site = site.name;
  command.replica = site.replica;
  command.state = SiteState::kLeaving;
  Status marked = group_->Propose(command, LeftUntil(deadline));
  // Somebody else may have begun.
  if (!marked.ok() && marked.code() != Code::kConflict) return marked;
  return group_->AwaitLeft(site.replica, deadline);
}

Status Site::StepDown(const std::string& name) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterSite site, FindSite(name));
  return service_->StepDown(site).WithContext("site '" + name + "'");
}

Result<std::size_t> Site::Balance() {
  if (shards_ == nullptr) return ClusterFault("open the database of this site first");
  std::map<std::uint32_t, std::uint64_t> leaders;  // by shard
  for (const auto& [index, replica] : shards_->All()) leaders[index] = replica->position().leader;
  const ClusterState state = group_->state();
  std::set<std::uint64_t> members;
  for (const ClusterSite& site : state.sites) {
    if (site.state == SiteState::kMember && service_->IsUp(site)) members.insert(site.replica);
  }
  std::size_t moved = 0;
  for (const auto& move : replication::PlanBalance(leaders, members)) {
    TOPICDB_RETURN_IF_ERROR(
        service_->HandOver(*state.FindReplica(move.from), move.shard, *state.FindReplica(move.to)));
    ++moved;
  }
  return moved;
}

Result<std::uint32_t> Site::Upgrade(milliseconds patience) { return service_->Upgrade(patience); }

Status Site::Heal(const std::string& name, std::uint32_t shard) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterSite site, FindSite(name));
  return service_->Heal(site, shard).WithContext("site '" + name + "'");
}

Result<std::vector<ReplicaVerification>> Site::Verify(milliseconds patience,
                                                      const InterruptCheck& interrupted) {
  if (shards_ == nullptr) return ClusterFault("open the database of this site first");
  ClusterState state = group_->state();
  TOPICDB_RETURN_IF_ERROR(
      CheckInForce(FormatOf(EntryKind::kDigest), state.format).WithContext("digests"));
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules,
                           DecodeRetention(state.retention, options_.path + "/site/cluster"));
  ClusterCheck check(service_.get(), std::move(state), std::move(rules));
  return check.Run(static_cast<std::uint32_t>(shards_->All().size()), Clock::now() + patience,
                   interrupted);
}

std::vector<ReplicaReport> Site::Replicas() const {
  std::vector<ReplicaReport> reports;
  if (shards_ == nullptr) return reports;
  for (const auto& [index, replica] : shards_->All()) {
    const auto status = shards_->StatusOf(index);
    if (!status.ok()) continue;
    const RaftPosition& position = status->position;
    const Status failure = replica->failure();
    reports.push_back({index, replica->state(), position.leader, position.term, status->committed,
                       status->applied, status->first, status->last,
                       failure.ok() ? replica->damage() : failure});
  }
  return reports;
}

}  // namespace topicdb
