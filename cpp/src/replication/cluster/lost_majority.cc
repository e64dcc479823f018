#include "replication/cluster/lost_majority.h"

#include <chrono>
#include <utility>

#include "base/file/files.h"
#include "replication/cluster/site_call.h"
#include "replication/cluster/site_identity.h"
#include "replication/cluster/site_service.h"
#include "replication/state/cluster_file.h"

namespace topicdb::replication {

namespace {

constexpr std::chrono::milliseconds kAnswerPatience(2'000);

// What the directory of a site says of it and of its cluster.
struct Found {
  SiteIdentity identity;
  ClusterSnapshot cluster;
};

Result<Found> Load(const std::string& path) {
  const std::string who = path + "/site/identity";
  if (!Exists(who)) return NotFound(path + " is not the directory of a site");
  Found found;
  TOPICDB_ASSIGN_OR_RETURN(found.identity, ReadSiteIdentity(who));
  TOPICDB_ASSIGN_OR_RETURN(auto cluster, LoadClusterSnapshot(path + "/site/cluster"));
  if (!cluster.has_value() || !cluster->state.is_founded()) {
    return ClusterFault(path + ": the site knows of no cluster yet");
  }
  found.cluster = std::move(*cluster);
  if (found.cluster.state.FindReplica(found.identity.replica) == nullptr) {
    return ClusterFault(path + ": site '" + found.identity.name +
                        "' has left the cluster, whose sites are " + found.cluster.state.Names());
  }
  return found;
}

// Returns kCluster if a site answers, and kInvalidArgument if nobody can be asked with the files
// that were given.
Status CheckGone(const Found& found, const RaftSiteOptions& options) {
  const ClusterState& state = found.cluster.state;
  const std::string call =
      Encode(StandingCall(state.id, found.identity.replica, /*peers=*/std::string()));
  for (const ClusterSite& site : state.sites) {
    if (site.peers.empty()) continue;
    const Status asked = RaftSite::AskAt(site.peers, options, call, kAnswerPatience).status();
    if (asked.code() == Code::kInvalidArgument) return asked.WithContext(site.peers);
    if (asked.ok() || asked.code() == Code::kNotFound) {
      return ClusterFault("site '" + site.name + "' is up at " + site.peers +
                          (site.replica == found.identity.replica
                               ? ": stop it first"
                               : ": this is only for a cluster whose majority is lost for good"));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<StoredSite> LoadStoredSite(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(Found found, Load(path));
  return StoredSite{std::move(found.identity.name), std::move(found.cluster.state.sites)};
}

Status ForgetOthers(const std::string& path, RaftSiteOptions options) {
  TOPICDB_ASSIGN_OR_RETURN(Found found, Load(path));
  TOPICDB_RETURN_IF_ERROR(CheckGone(found, options));
  options.directory = path + "/site/log";
  options.id = found.identity.id;
  options.replica = found.identity.replica;
  TOPICDB_RETURN_IF_ERROR(RaftSite::BeAlone(options));
  // A crash here leaves the others in the state, and this site leads without them. Then they are
  // forgotten by the next call, or as others are.
  ClusterState& state = found.cluster.state;
  std::erase_if(state.sites,
                [&](const ClusterSite& site) { return site.replica != found.identity.replica; });
  state.sites.front().state = SiteState::kMember;
  ++state.revision;
  return StoreClusterSnapshot(path + "/site/cluster", found.cluster);
}

}  // namespace topicdb::replication
