// The sites of a cluster, and their replicas.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "topicdb/status.h"

namespace topicdb {

// The formats of what the sites of a cluster write and tell each other. Each has all that the ones
// before it have:
//
//   1  the first one
//   2  the state of the cluster says which format is in force
//
// A cluster has one of them in force, and its sites write nothing that came with a later one. So
// its sites may be upgraded one by one.
inline constexpr std::uint32_t kClusterFormatFirst = 1;
// The newest one, with which this version of TopicDB can work.
inline constexpr std::uint32_t kClusterFormatNewest = 2;

enum class SiteState : std::uint8_t {
  kMember = 0,
  kJoining = 1,  // it does not have all shards yet
  kLeaving = 2,  // the others go on without it
};

// A site of a cluster. A value.
struct ClusterSite {
  std::string name;
  std::uint64_t replica = 0;  // its id in all groups of the consensus
  std::string peers;          // where other sites find it, host:port
  std::string clients;        // where clients find it, as a URL; empty while it serves none
  SiteState state = SiteState::kMember;
  std::array<std::uint8_t, 16> id{};  // random; all zeros if the site has founded the cluster
  bool operator==(const ClusterSite&) const = default;
};

enum class ReplicaState : std::uint8_t {
  kFollowing,
  kTakingOver,  // it has begun to lead, and makes the shard ready to be written
  kLeading,
  kGivingUp,  // it leads no more, and waits for writes that are under way
  kFailed,    // it applies no more
  kHealing,   // its data is damaged, and comes anew from another replica
};

// What a site knows of its replica of a shard. A value.
struct ReplicaReport {
  std::uint32_t shard = 0;
  ReplicaState state = ReplicaState::kFollowing;
  std::uint64_t leader = 0;  // the replica that leads; 0: none is known
  std::uint64_t term = 0;
  // Entries of the log.
  std::uint64_t committed = 0;
  std::uint64_t applied = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  Status failure;  // why the replica takes part no more, or is being healed, or Ok
};

enum class ReplicaOutcome : std::uint8_t {
  kSame,         // it has what the majority of the replicas has
  kDiffers,      // it has something else
  kDamaged,      // it cannot be read
  kNotCompared,  // its site did not answer, say
};

// What a comparison of the replicas of a shard says of one of them. A value.
struct ReplicaVerification {
  std::uint32_t shard = 0;
  std::string site;
  ReplicaOutcome outcome = ReplicaOutcome::kNotCompared;
  std::vector<std::string> parts;  // of kDiffers: where
  // Why it is damaged or was not compared; or that nobody knows which replicas are right, because
  // no majority of them has the same.
  std::string why;
  bool operator==(const ReplicaVerification&) const = default;
};

}  // namespace topicdb
