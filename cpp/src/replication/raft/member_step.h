// What the leader of a group does next, so that the group has the members that it should have.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "replication/raft/raft_site.h"

namespace topicdb::replication {

// The members that a group should have.
struct WantedMembers {
  std::set<std::uint64_t> replicas;
  // Replicas that are to go, and stay without a vote until they have heard that.
  std::set<std::uint64_t> listeners;
  // Replicas beyond this one are newer than what the leader knows, and stay.
  std::uint64_t last_replica = 0;
};

enum class MemberStepKind : std::uint8_t {
  kNothing,   // there is nothing to do, or something is to be waited for
  kHandOver,  // the leader itself is to go: another replica has to lead first
  kChange,    // the members are to be changed
};

struct MemberStep {
  MemberStepKind kind = MemberStepKind::kNothing;
  std::uint64_t to = 0;               // of kHandOver
  std::vector<std::uint64_t> voters;  // of kChange, as the next
  std::vector<std::uint64_t> learners;
  bool operator==(const MemberStep&) const = default;
};

// Returns whether the members of a group are the wanted ones, and all of them vote but those that
// only listen.
bool IsSettled(const RaftStatus& group, const WantedMembers& wanted);

// These return whether a replica is in a group at all, and whether it votes there for good.
bool HasMember(const RaftStatus& group, std::uint64_t replica);
bool HasVoter(const RaftStatus& group, std::uint64_t replica);
// Returns whether the group may need the vote of a replica, which may be about to lose it.
bool NeedsVote(const RaftStatus& group, std::uint64_t replica);

// Returns what the leader of a group does next. Members that are not wanted go first, as soon as a
// majority of the others is up: without it nothing more could be written. Those that only listen
// lose their vote as others go. A new member learns what there is, and votes once it has nearly
// everything. One change is made at a time. REQUIRES: `group` is what its leader `own` knows
MemberStep NextMemberStep(const RaftStatus& group, const WantedMembers& wanted, std::uint64_t own);

// Returns the voter that can best lead in the place of `own`: one that is up and wanted, and has
// the most. Returns 0 if there is none.
std::uint64_t BestSuccessor(const RaftStatus& group, const std::set<std::uint64_t>& wanted,
                            std::uint64_t own);

}  // namespace topicdb::replication
