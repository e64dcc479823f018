#include "replication/cluster/site_service.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "replication/site/hand_over.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAddPatience(5'000);
constexpr milliseconds kHandOverPatience(5'000);
constexpr milliseconds kCallPatience(30'000);  // a site may hand over many shards
constexpr milliseconds kConnectPatience(2'000);
constexpr milliseconds kAliveWithin(1'000);
constexpr milliseconds kAskAgainAfter(200);
constexpr milliseconds kAnswerPatience(2'000);  // at least, of who connects

}  // namespace

SiteService::SiteService(RaftSite* site, ClusterGroup* group, std::uint64_t group_number)
    : site_(*site), group_(*group), group_number_(group_number) {
  site_.AnswerBy(this);
}

SiteService::~SiteService() { site_.AnswerBy(nullptr); }

void SiteService::SetShards(std::shared_ptr<SiteShards> shards) {
  const MutexLock lock(mutex_);
  shards_ = std::move(shards);
}

bool SiteService::IsUp(const ClusterSite& other) {
  if (other.replica == site_.replica()) return true;
  const SiteCall call = StandingCall(group_.state().id, site_.replica(), {});
  // A site that says anything is up.
  const Code code =
      site_.Ask(other.replica, kSiteGroup, Encode(call), kAliveWithin).status().code();
  return code == Code::kOk || code == Code::kNotFound;
}

Status SiteService::StepDown(const ClusterSite& other) {
  SiteCall call;
  call.kind = SiteCallKind::kStepDown;
  return DoAt(other, call);
}

Status SiteService::HandOver(const ClusterSite& from, std::uint32_t shard, const ClusterSite& to) {
  SiteCall call;
  call.kind = SiteCallKind::kHandOver;
  call.shard = shard;
  call.replica = to.replica;
  return DoAt(from, call);
}

Status SiteService::DoAt(const ClusterSite& site, const SiteCall& call) {
  if (site.replica == site_.replica()) return Do(call).status;
  TOPICDB_ASSIGN_OR_RETURN(const SiteAnswer answer,
                           AskSite(&site_, site.replica, call, kCallPatience, kConnectPatience));
  return answer.status;
}

Result<std::string> SiteService::Answer(std::string_view request) {
  TOPICDB_ASSIGN_OR_RETURN(const SiteCall call, DecodeSiteCall(request));
  return Encode(Do(call));
}

SiteAnswer SiteService::Do(const SiteCall& call) {
  switch (call.kind) {
    case SiteCallKind::kJoin:
      return AddSite(call);
    case SiteCallKind::kStanding:
      return StandingOf(call);
    case SiteCallKind::kStepDown:
      return {StepDownHere(), 0, {}};
    case SiteCallKind::kHandOver:
      return {
          site_.Transfer(group_number_ + 1 + call.shard, call.replica, kHandOverPatience), 0, {}};
  }
  return {Conflict("there is no such call"), 0, {}};
}

SiteAnswer SiteService::AddSite(const SiteCall& call) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kAddSite;
  command.site = call.name;
  command.id = call.id;
  command.peers = call.peers;
  const Status added = group_.Propose(command, kAddPatience);
  if (!added.ok() && added.code() != Code::kConflict) return {added, 0, {}};
  return {Status::Ok(), group_number_, group_.state()};
}

SiteAnswer SiteService::StandingOf(const SiteCall& call) {
  ClusterState state = group_.state();
  if (!state.is_founded()) return {Status::Ok(), group_number_, {}};  // this site knows nothing yet
  if (call.cluster != state.id) return {ClusterFault("the site is of another cluster"), 0, {}};
  if (state.HasLeft(call.replica)) {
    return {
        ClusterFault("the cluster goes on without this site, which has left it: its sites are " +
                     state.Names() + ". To take part again, join in an empty directory"),
        0,
        {}};
  }
  const ClusterSite* const site = state.FindReplica(call.replica);
  if (site != nullptr && !call.peers.empty() && call.peers != site->peers) {
    ClusterCommand command;
    command.kind = ClusterCommandKind::kSetPeers;
    command.site = site->name;
    command.peers = call.peers;
    group_.Propose(command, kAddPatience).IgnoreError();  // the site asks again
    state = group_.state();
  }
  return {Status::Ok(), group_number_, std::move(state)};
}

Status SiteService::StepDownHere() {
  std::shared_ptr<SiteShards> shards;
  {
    const MutexLock lock(mutex_);
    shards = shards_;
  }
  const auto deadline = Clock::now() + kHandOverPatience;
  Status handed_over = replication::HandOver(&site_, group_number_, deadline);
  if (shards == nullptr) return handed_over;
  for (const auto& [index, replica] : shards->All()) {
    const Status shard = replication::HandOver(&site_, group_number_ + 1 + index, deadline);
    if (handed_over.ok()) handed_over = shard.WithContext(replica->name());
  }
  return handed_over;
}

SiteCall StandingCall(const ClusterId& cluster, std::uint64_t replica, const std::string& peers) {
  SiteCall call;
  call.kind = SiteCallKind::kStanding;
  call.cluster = cluster;
  call.replica = replica;
  call.peers = peers;
  return call;
}

Result<SiteAnswer> AskSite(RaftSite* site, std::uint64_t replica, const SiteCall& call,
                           milliseconds patience, milliseconds connect_patience) {
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes, site->Ask(replica, kSiteGroup, Encode(call),
                                                              patience, connect_patience));
  return DecodeSiteAnswer(bytes);
}

Result<SiteAnswer> AskCluster(const std::vector<std::string>& addresses,
                              const RaftSiteOptions& options, const SiteCall& call,
                              milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    Status last = NotLeader("there is no address to ask");
    for (const std::string& address : addresses) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
      const auto bytes =
          RaftSite::AskAt(address, options, Encode(call), std::max(left, kAnswerPatience));
      last = bytes.status();
      if (!bytes.ok()) continue;
      TOPICDB_ASSIGN_OR_RETURN(SiteAnswer answer, DecodeSiteAnswer(*bytes));
      last = answer.status;
      if (last.ok()) return answer;
      if (last.code() == Code::kCluster) return last;
    }
    if (last.code() == Code::kInvalidArgument) return last;
    if (Clock::now() >= deadline) {
      return NotLeader("no site of the cluster has done what it was asked within " +
                       std::to_string(patience.count()) + " ms: " + last.message());
    }
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

}  // namespace topicdb::replication
