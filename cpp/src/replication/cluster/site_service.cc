#include "replication/cluster/site_service.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "replication/raft/format.h"
#include "replication/raft/hand_over.h"
#include "replication/raft/member_step.h"

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

// Names the sites that can work with no later format than the one in force.
std::string TooOld(const std::map<std::string, std::uint32_t>& newest, std::uint32_t in_force) {
  std::string names;
  for (const auto& [name, format] : newest) {
    if (format > in_force) continue;
    names += names.empty() ? "site '" : ", site '";
    names += name;
    names += '\'';
  }
  return names + " can work with format " + std::to_string(in_force) +
         " at most, which is in force";
}

SiteAnswer AnswerOf(Status status, std::uint64_t group = 0, ClusterState state = {}) {
  SiteAnswer answer;
  answer.status = std::move(status);
  answer.group = group;
  answer.state = std::move(state);
  return answer;
}

}  // namespace

SiteService::SiteService(RaftSite* site, ClusterGroup* group, std::uint64_t group_number,
                         std::uint32_t newest_format)
    : site_(*site), group_(*group), group_number_(group_number), newest_format_(newest_format) {
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

Status SiteService::Heal(const ClusterSite& at, std::uint32_t shard) {
  SiteCall call;
  call.kind = SiteCallKind::kHeal;
  call.shard = shard;
  return DoAt(at, call);
}

Status SiteService::DoAt(const ClusterSite& site, const SiteCall& call) {
  TOPICDB_ASSIGN_OR_RETURN(const SiteAnswer answer,
                           Ask(site, call, kCallPatience, kConnectPatience));
  return answer.status;
}

Result<SiteAnswer> SiteService::Ask(const ClusterSite& site, const SiteCall& call,
                                    milliseconds patience, milliseconds connect_patience) {
  if (site.replica == site_.replica()) return Do(call);
  return AskSite(&site_, site.replica, call, patience, connect_patience);
}

Result<std::string> SiteService::Answer(std::string_view request) {
  TOPICDB_ASSIGN_OR_RETURN(const SiteCall call, DecodeSiteCall(request));
  TOPICDB_RETURN_IF_ERROR(CheckFormat(FormatOf(call), newest_format_));
  return Encode(Do(call));
}

SiteAnswer SiteService::Do(const SiteCall& call) {
  switch (call.kind) {
    case SiteCallKind::kJoin:
      return AddSite(call);
    case SiteCallKind::kStanding:
      return StandingOf(call);
    case SiteCallKind::kStepDown:
      return AnswerOf(StepDownHere());
    case SiteCallKind::kHandOver:
      return AnswerOf(
          site_.Transfer(group_number_ + 1 + call.shard, call.replica, kHandOverPatience));
    case SiteCallKind::kFormat: {
      SiteAnswer answer;
      answer.format = newest_format_;
      return answer;
    }
    case SiteCallKind::kBeginDigest:
    case SiteCallKind::kTakeDigest:
      return DigestOf(call);
    case SiteCallKind::kHeal: {
      const auto replica = FindReplica(call.shard);
      return AnswerOf(replica.ok() ? (*replica)->Heal() : replica.status());
    }
  }
  return AnswerOf(Conflict("there is no such call"));
}

Result<std::uint32_t> SiteService::NewestFormatOf(const ClusterSite& other) {
  SiteCall call;
  call.kind = SiteCallKind::kFormat;
  const auto answer = Ask(other, call, kAnswerPatience, kConnectPatience);
  if (answer.ok()) return answer->format;
  // A site that knows of no formats does not understand the call.
  if (answer.status().code() == Code::kNotFound && IsUp(other)) return kClusterFormatFirst;
  return NotLeader("site '" + other.name + "' does not answer");
}

Result<std::uint32_t> SiteService::Upgrade(milliseconds patience) {
  const ClusterState state = group_.state();
  std::map<std::string, std::uint32_t> known;  // by site
  ClusterCommand command;
  command.kind = ClusterCommandKind::kUpgrade;
  command.format = newest_format_;
  command.based_on = state.last_replica;
  std::uint32_t newest = newest_format_;
  for (const ClusterSite& site : state.sites) {
    const auto format = NewestFormatOf(site);
    if (!format.ok()) {
      return ClusterFault(format.status().message() +
                          ": all sites must be up, so that each can say what it can work with");
    }
    known[site.name] = *format;
    newest = std::max(newest, *format);
    command.format = std::min(command.format, *format);
  }
  if (command.format <= state.format && newest > state.format) {
    return ClusterFault(TooOld(known, state.format) + ": upgrade TopicDB there first");
  }
  if (command.format <= state.format) return state.format;
  const Status proposed = group_.Propose(command, patience);
  if (!proposed.ok() && proposed.code() != Code::kConflict) return proposed;
  return group_.format();
}

SiteAnswer SiteService::AddSite(const SiteCall& call) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kAddSite;
  command.site = call.name;
  command.id = call.id;
  command.peers = call.peers;
  // While an earlier format is in force, nobody writes that the site can work with a later one.
  command.format = std::min(call.format, group_.format());
  const Status added = group_.Propose(command, kAddPatience);
  if (!added.ok() && added.code() != Code::kConflict) return AnswerOf(added);
  return AnswerOf(Status::Ok(), group_number_, group_.state());
}

SiteAnswer SiteService::StandingOf(const SiteCall& call) {
  ClusterState state = group_.state();
  if (!state.is_founded()) return AnswerOf(Status::Ok(), group_number_);  // nothing is known yet
  if (call.cluster != state.id) return AnswerOf(ClusterFault("the site is of another cluster"));
  if (state.HasLeft(call.replica)) {
    return AnswerOf(
        ClusterFault("the cluster goes on without this site, which has left it: its sites are " +
                     state.Names() + ". To take part again, join in an empty directory"));
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
  return AnswerOf(Status::Ok(), group_number_, std::move(state));
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

Result<std::shared_ptr<Replica>> SiteService::FindReplica(std::uint32_t shard) const {
  std::shared_ptr<SiteShards> shards;
  {
    const MutexLock lock(mutex_);
    shards = shards_;
  }
  auto replica = shards == nullptr ? nullptr : shards->Find(shard);
  if (replica != nullptr) return replica;
  return NotLeader("the site has not opened shard " + std::to_string(shard));
}

SiteAnswer SiteService::DigestOf(const SiteCall& call) {
  const auto replica = FindReplica(call.shard);
  if (!replica.ok()) return AnswerOf(replica.status());
  Result<ReplicaDigest> digest = ReplicaDigest();
  if (call.kind == SiteCallKind::kTakeDigest) {
    digest = (*replica)->DigestAt(call.place);
  } else if (const auto place = (*replica)->BeginDigest(); place.ok()) {
    digest->place = *place;
  } else {
    digest = place.status();
  }
  if (!digest.ok()) return AnswerOf(digest.status());
  SiteAnswer answer;
  answer.digest = Encode(*digest);
  return answer;
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
      const milliseconds patience_here = std::max(left, kAnswerPatience);
      auto bytes = RaftSite::AskAt(address, options, Encode(call), patience_here);
      const bool knows_no_formats =
          bytes.status().code() == Code::kNotFound && call.format > kClusterFormatFirst;
      if (knows_no_formats) {  // or the site is about to begin or to end
        SiteCall first = call;
        first.format = kClusterFormatFirst;
        bytes = RaftSite::AskAt(address, options, Encode(first), patience_here);
      }
      last = bytes.status();
      if (!bytes.ok()) continue;
      TOPICDB_ASSIGN_OR_RETURN(SiteAnswer answer, DecodeSiteAnswer(*bytes));
      last = answer.status;
      if (last.ok()) return answer;
      if (last.code() == Code::kCluster && !knows_no_formats) return last;
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
