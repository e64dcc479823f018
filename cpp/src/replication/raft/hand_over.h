// How a replica that leads a group lets another one lead.
#pragma once

#include <chrono>
#include <cstdint>

#include "replication/raft/raft_site.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// Hands a group over to the voter that can best lead it, and tries again until the deadline. Does
// nothing if another replica leads. Returns kNotLeader if no other one could lead, at once if no
// other one votes.
Status HandOver(RaftSite* site, std::uint64_t group,
                std::chrono::steady_clock::time_point deadline);

}  // namespace topicdb::replication
