// What sites ask each other as sites, not as members of a group. Only this file and site_call.cc
// know the bytes, which docs/internals/format.md draws.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "replication/replicated_log.h"
#include "replication/state/cluster_state.h"
#include "topicdb/status.h"

namespace topicdb::replication {

enum class SiteCallKind : std::uint8_t {
  kJoin = 1,         // a program that is no site yet asks to become one
  kStanding = 2,     // a site asks whether it is still a member, and says where it is
  kStepDown = 3,     // the site is to hand over whatever it leads
  kHandOver = 4,     // the site is to hand over one shard
  kFormat = 5,       // the site is to say with which formats it can work
  kBeginDigest = 6,  // the site is to have all replicas of a shard make digests, if it leads
  kTakeDigest = 7,   // the site is asked for the digest of its replica
  kHeal = 8,         // the site is to fill its replica of a shard anew from another one
};

// What a site is asked. A value.
struct SiteCall {
  SiteCallKind kind = SiteCallKind::kStanding;
  std::string name;                   // of kJoin: of the site that is to be
  std::array<std::uint8_t, 16> id{};  // of kJoin: of that site, random
  std::string peers;                  // of kJoin and kStanding: where other sites find it, or ""
  ClusterId cluster{};                // of kStanding
  std::uint64_t replica = 0;          // of kStanding: who asks; of kHandOver: who is to lead
  // Of kHandOver, and of those of digests and healing.
  std::uint32_t shard = 0;
  LogPlace place;  // of kTakeDigest: of the entry
  // Of kJoin: the newest format with which the site can work.
  std::uint32_t format = kClusterFormatFirst;
  bool operator==(const SiteCall&) const = default;
};

// Returns the format with which a call came: earlier versions of TopicDB do not answer it.
std::uint32_t FormatOf(const SiteCall& call);

std::string Encode(const SiteCall& call);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a later version.
Result<SiteCall> DecodeSiteCall(std::string_view bytes);

// What it answers. A value.
struct SiteAnswer {
  Status status;
  std::uint64_t group = 0;  // of the cluster
  ClusterState state;       // to kJoin and kStanding: as it is by now
  // To kFormat: the newest format with which the site can work.
  std::uint32_t format = kClusterFormatFirst;
  // To kBeginDigest and kTakeDigest: a ReplicaDigest. That to kBeginDigest has the place alone.
  std::string digest;
};

std::string Encode(const SiteAnswer& answer);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a later version.
Result<SiteAnswer> DecodeSiteAnswer(std::string_view bytes);

}  // namespace topicdb::replication
