#include "replication/cluster/member_keeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "replication/cluster/site_service.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long one change of members, or one note of what has come to be, may take.
constexpr milliseconds kStepPatience(5'000);
// How soon the keeper looks again while something is to be done, and while nothing is.
constexpr milliseconds kBusyInterval(50);
constexpr milliseconds kIdleInterval(500);
constexpr milliseconds kStandingPatience(1'000);

}  // namespace

MemberKeeper::MemberKeeper(RaftSite* site, ClusterGroup* group, MemberKeeperOptions options)
    : site_(*site), group_(*group), options_(std::move(options)), heard_at_(Clock::now()) {}

MemberKeeper::~MemberKeeper() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (worker_.joinable()) worker_.join();
}

void MemberKeeper::Start() {
  worker_ = std::thread([this] { Work(); });
}

Status MemberKeeper::SetAddress(std::uint64_t replica, const std::string& address) {
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(site_.SetPeer(replica, address));
  addresses_[replica] = address;
  given_.insert(replica);
  return Status::Ok();
}

void MemberKeeper::SetShards(std::shared_ptr<SiteShards> shards) {
  const MutexLock lock(mutex_);
  shards_ = std::move(shards);
  changed_.NotifyAll();
}

Status MemberKeeper::standing() const {
  const MutexLock lock(mutex_);
  return left_;
}

std::shared_ptr<SiteShards> MemberKeeper::shards() const {
  const MutexLock lock(mutex_);
  return shards_;
}

void MemberKeeper::Work() {
  for (;;) {
    const ClusterState state = group_.state();
    bool is_done = true;
    if (state.is_founded()) {
      LearnAddresses(state);
      is_done = KeepGroups(state);
    }
    CheckStanding(state);
    const MutexLock lock(mutex_);
    if (closing_) return;
    changed_.WaitUntil(mutex_, Clock::now() + (is_done ? kIdleInterval : kBusyInterval));
    if (closing_) return;
  }
}

void MemberKeeper::LearnAddresses(const ClusterState& state) {
  const MutexLock lock(mutex_);
  if (state.revision <= learnt_revision_) return;  // another site has said newer ones
  learnt_revision_ = state.revision;
  for (const ClusterSite& site : state.sites) {
    if (site.replica == site_.replica() || site.peers.empty() || given_.contains(site.replica)) {
      continue;
    }
    std::string& known = addresses_[site.replica];
    if (known == site.peers) continue;
    known = site.peers;
    site_.SetPeer(site.replica, known).IgnoreError();  // an address that cannot be is not reached
  }
  std::erase_if(addresses_, [&](const auto& known) {
    if (!state.HasLeft(known.first)) return false;
    site_.SetPeer(known.first, "").IgnoreError();
    return true;
  });
}

bool MemberKeeper::KeepGroups(const ClusterState& state) {
  WantedMembers owners;  // of the shards
  owners.last_replica = state.last_replica;
  WantedMembers members = owners;
  for (const ClusterSite& site : state.sites) {
    const bool leaves = site.state == SiteState::kLeaving;
    if (!leaves) owners.replicas.insert(site.replica);
    (leaves ? members.listeners : members.replicas).insert(site.replica);
  }
  bool is_done = KeepGroup(options_.group, members);
  const auto found = shards();
  std::vector<std::uint64_t> groups;
  if (found != nullptr) {
    for (const auto& [index, replica] : found->All()) groups.push_back(options_.group + 1 + index);
  }
  for (const std::uint64_t group : groups) is_done = KeepGroup(group, owners) && is_done;
  const auto is_member = [](const ClusterSite& site) { return site.state == SiteState::kMember; };
  if (std::all_of(state.sites.begin(), state.sites.end(), is_member)) return is_done;
  if (!groups.empty() && group_.leads()) NoteProgress(state, groups);
  return false;
}

bool MemberKeeper::KeepGroup(std::uint64_t group, const WantedMembers& wanted) {
  const auto status = site_.StatusOf(group);
  if (!status.ok()) return false;
  if (IsSettled(*status, wanted)) return true;
  if (status->position.role != RaftRole::kLeader) return false;
  const MemberStep step = NextMemberStep(*status, wanted, site_.replica());
  // A step that fails is done again, by whoever leads then.
  switch (step.kind) {
    case MemberStepKind::kNothing:
      break;
    case MemberStepKind::kHandOver:
      site_.Transfer(group, step.to, kStepPatience).IgnoreError();
      break;
    case MemberStepKind::kChange:
      site_.Change(group, step.voters, step.learners, kStepPatience).IgnoreError();
      break;
  }
  return false;
}

void MemberKeeper::NoteProgress(const ClusterState& state,
                                const std::vector<std::uint64_t>& shards) {
  const auto cluster = site_.StatusOf(options_.group);
  if (!cluster.ok()) return;
  std::vector<RaftStatus> groups;
  for (const std::uint64_t shard : shards) {
    auto status = site_.StatusOf(shard);
    if (!status.ok()) return;
    groups.push_back(std::move(*status));
  }
  for (const ClusterSite& site : state.sites) {
    const auto has = [&](const RaftStatus& group) { return HasMember(group, site.replica); };
    const auto votes = [&](const RaftStatus& group) { return HasVoter(group, site.replica); };
    ClusterCommand command;
    command.site = site.name;
    command.replica = site.replica;
    // Once a site is removed, the others must need no answer of it any more.
    if (site.state == SiteState::kLeaving && std::none_of(groups.begin(), groups.end(), has) &&
        !NeedsVote(*cluster, site.replica)) {
      command.kind = ClusterCommandKind::kRemoveSite;
    } else if (site.state == SiteState::kJoining &&
               std::all_of(groups.begin(), groups.end(), votes)) {
      command.kind = ClusterCommandKind::kSetState;
      command.state = SiteState::kMember;
    } else {
      continue;
    }
    group_.Propose(command, kStepPatience).IgnoreError();  // it is noted again
  }
}

void MemberKeeper::CheckStanding(const ClusterState& state) {
  if (!standing().ok()) return;
  // A site that is too old for what the others write cannot follow them.
  if (const Status failure = group_.failure(); failure.code() == Code::kSchema) {
    return NoteLeft(failure);
  }
  if (!state.is_founded()) return;
  if (state.HasLeft(site_.replica())) {
    return NoteLeft(ClusterFault("site '" + options_.name + "' has left the cluster"));
  }
  if (group_.knows_leader()) {
    heard_at_ = Clock::now();
    return;
  }
  if (Clock::now() - heard_at_ < options_.silence_max) return;
  heard_at_ = Clock::now();  // the next one is asked later
  const Status standing = AskForStanding(state);
  if (standing.code() == Code::kCluster) NoteLeft(standing);
}

Status MemberKeeper::AskForStanding(const ClusterState& state) {
  const ClusterSite& other = state.sites[asked_++ % state.sites.size()];
  if (other.replica == site_.replica()) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(
      const SiteAnswer answer,
      AskSite(&site_, other.replica, StandingCall(state.id, site_.replica(), options_.peers),
              kStandingPatience, kStandingPatience));
  LearnAddresses(answer.state);
  return answer.status;
}

void MemberKeeper::NoteLeft(const Status& why) {
  std::shared_ptr<SiteShards> shards;
  {
    const MutexLock lock(mutex_);
    left_ = why;
    shards = shards_;
  }
  if (shards == nullptr) return;
  for (const auto& [index, replica] : shards->All()) replica->Retire(why);
}

}  // namespace topicdb::replication
