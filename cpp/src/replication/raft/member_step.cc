#include "replication/raft/member_step.h"

#include <algorithm>

namespace topicdb::replication {

namespace {

// A learner that lacks no more entries than this gets the rest while it votes.
constexpr std::uint64_t kBehindMax = 1'000;

bool HasCaughtUp(const RaftMember& member, const RaftStatus& group) {
  return member.is_active && !member.gets_snapshot && member.matched > 0 &&
         member.matched + kBehindMax >= group.committed;
}

// Returns whether a majority of the voters is up.
bool HasMajority(const RaftStatus& group, const std::vector<std::uint64_t>& voters,
                 std::uint64_t own) {
  const auto is_up = [&](const RaftMember& member) {
    return (member.is_active || member.replica == own) &&
           std::find(voters.begin(), voters.end(), member.replica) != voters.end();
  };
  const auto up = std::count_if(group.members.begin(), group.members.end(), is_up);
  return 2 * static_cast<std::size_t>(up) > voters.size();
}

}  // namespace

bool IsSettled(const RaftStatus& group, const WantedMembers& wanted) {
  std::size_t voters = 0;
  for (const RaftMember& member : group.members) {
    if (member.is_leaving) return false;
    voters += member.is_voter ? 1 : 0;
    if (!(member.is_voter ? wanted.replicas : wanted.listeners).contains(member.replica)) {
      return false;
    }
  }
  return voters == wanted.replicas.size();
}

bool HasMember(const RaftStatus& group, std::uint64_t replica) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [&](const RaftMember& member) { return member.replica == replica; });
}

bool HasVoter(const RaftStatus& group, std::uint64_t replica) {
  return std::any_of(group.members.begin(), group.members.end(), [&](const RaftMember& member) {
    return member.replica == replica && member.is_voter && !member.is_leaving;
  });
}

bool NeedsVote(const RaftStatus& group, std::uint64_t replica) {
  return std::any_of(group.members.begin(), group.members.end(), [&](const RaftMember& member) {
    return member.replica == replica && (member.is_voter || member.is_leaving);
  });
}

std::uint64_t BestSuccessor(const RaftStatus& group, const std::set<std::uint64_t>& wanted,
                            std::uint64_t own) {
  const RaftMember* best = nullptr;
  for (const RaftMember& member : group.members) {
    const bool can_lead = member.replica != own && member.is_voter && !member.is_leaving &&
                          member.is_active && wanted.contains(member.replica);
    if (can_lead && (best == nullptr || member.matched > best->matched)) best = &member;
  }
  return best == nullptr ? 0 : best->replica;
}

MemberStep NextMemberStep(const RaftStatus& group, const WantedMembers& wanted, std::uint64_t own) {
  MemberStep step;
  std::set<std::uint64_t> missing = wanted.replicas;
  bool must_go = false;  // somebody
  bool own_must_go = false;
  bool changes = false;
  for (const RaftMember& member : group.members) {
    if (member.is_leaving) return {};  // a change is under way
    missing.erase(member.replica);
    const bool is_unknown = member.replica > wanted.last_replica;
    if (!is_unknown && !wanted.replicas.contains(member.replica)) {
      const bool listens = wanted.listeners.contains(member.replica);
      if (listens) step.learners.push_back(member.replica);
      must_go = must_go || member.is_voter || !listens;
      own_must_go = own_must_go || member.replica == own;
      continue;
    }
    const bool may_vote = !member.is_voter && !is_unknown && HasCaughtUp(member, group);
    changes = changes || may_vote;
    (member.is_voter || may_vote ? step.voters : step.learners).push_back(member.replica);
  }
  if (own_must_go) {
    step = {};
    step.to = BestSuccessor(group, wanted.replicas, own);
    if (step.to != 0) step.kind = MemberStepKind::kHandOver;
    return step;
  }
  step.learners.insert(step.learners.end(), missing.begin(), missing.end());
  changes = changes || must_go || !missing.empty();
  if (!changes || !HasMajority(group, step.voters, own)) return {};
  step.kind = MemberStepKind::kChange;
  return step;
}

}  // namespace topicdb::replication
