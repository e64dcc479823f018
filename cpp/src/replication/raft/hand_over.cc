#include "replication/raft/hand_over.h"

#include <set>
#include <thread>

#include "replication/raft/member_step.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;

// How long one attempt may take, and how soon the next one comes.
constexpr std::chrono::milliseconds kAttemptPatience(1'000);
constexpr std::chrono::milliseconds kAgainAfter(20);

}  // namespace

Status HandOver(RaftSite* site, std::uint64_t group, Clock::time_point deadline) {
  for (;;) {
    TOPICDB_ASSIGN_OR_RETURN(const RaftStatus status, site->StatusOf(group));
    if (status.position.role != RaftRole::kLeader) return Status::Ok();
    std::set<std::uint64_t> others;
    for (const RaftMember& member : status.members) {
      if (member.is_voter && member.replica != site->replica()) others.insert(member.replica);
    }
    // A leader counts anew who is there once in each election timeout, and knows of nobody then.
    const std::uint64_t to = BestSuccessor(status, others, site->replica());
    const Status handed_over = to == 0 ? NotLeader("no other site is up that could lead")
                                       : site->Transfer(group, to, kAttemptPatience);
    if (handed_over.ok() || others.empty() || Clock::now() >= deadline) return handed_over;
    std::this_thread::sleep_for(kAgainAfter);
  }
}

}  // namespace topicdb::replication
