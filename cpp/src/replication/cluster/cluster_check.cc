#include "replication/cluster/cluster_check.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "replication/entry.h"

namespace topicdb::replication {

namespace {

using std::chrono::milliseconds;

// How long a site may take to answer whether it has a digest, and to take up a connection.
constexpr milliseconds kAnswerPatience(5'000);
constexpr milliseconds kConnectPatience(1'000);
// A leader may wait this long for a majority.
constexpr milliseconds kBeginPatience(15'000);
constexpr milliseconds kAskAgainAfter(50);
// After this long without an answer a site is down.
constexpr milliseconds kSilenceMax(5'000);

}  // namespace

Result<std::vector<ReplicaVerification>> ClusterCheck::Run(std::uint32_t shards,
                                                           Clock::time_point deadline,
                                                           const InterruptCheck& interrupted) {
  std::vector<ReplicaVerification> found;
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    DigestsBySite digests;
    const auto place = Begin(shard, deadline, interrupted);
    if (place.status().code() == Code::kInterrupted) return place.status();
    if (place.ok()) {
      TOPICDB_ASSIGN_OR_RETURN(digests, Collect(shard, *place, deadline, interrupted));
    } else {
      for (const ClusterSite& site : state_.sites) digests.emplace(site.name, place.status());
    }
    for (auto& one : CompareDigests(
             shard, digests, [this](const std::string& family) { return Describe(family); })) {
      found.push_back(std::move(one));
    }
  }
  return found;
}

Result<LogPlace> ClusterCheck::Begin(std::uint32_t shard, Clock::time_point deadline,
                                     const InterruptCheck& interrupted) {
  SiteCall call;
  call.kind = SiteCallKind::kBeginDigest;
  call.shard = shard;
  const auto until = std::min(deadline, Clock::now() + kBeginPatience);
  for (;;) {
    Status last = NotLeader("no site leads the shard");
    for (const ClusterSite& site : state_.sites) {
      if (interrupted && interrupted()) return Interrupted();
      const auto answer = service_.Ask(site, call, kBeginPatience, kConnectPatience);
      if (!answer.ok()) continue;  // another one may lead
      if (!answer->status.ok()) {
        if (answer->status.code() != Code::kNotLeader) last = answer->status;
        continue;
      }
      TOPICDB_ASSIGN_OR_RETURN(const ReplicaDigest begun, DecodeReplicaDigest(answer->digest));
      return begun.place;
    }
    if (Clock::now() >= until) return last;
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

Result<DigestsBySite> ClusterCheck::Collect(std::uint32_t shard, const LogPlace& place,
                                            Clock::time_point deadline,
                                            const InterruptCheck& interrupted) {
  SiteCall call;
  call.kind = SiteCallKind::kTakeDigest;
  call.shard = shard;
  call.place = place;
  DigestsBySite digests;
  for (;;) {
    for (const ClusterSite& site : state_.sites) {
      if (digests.contains(site.name)) continue;
      if (interrupted && interrupted()) return Interrupted();
      auto digest = AskOnce(site, call);
      if (digest.status().code() != Code::kStale) {
        digests.emplace(site.name, std::move(digest));
      } else if (Clock::now() >= deadline) {
        digests.emplace(site.name, Stale(digest.status().message() + ": it took too long"));
      }
    }
    if (digests.size() == state_.sites.size()) return digests;
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

Result<ReplicaDigest> ClusterCheck::AskOnce(const ClusterSite& site, const SiteCall& call) {
  const auto answer = service_.Ask(site, call, kAnswerPatience, kConnectPatience);
  const Code code = answer.status().code();
  if (code == Code::kNotLeader || code == Code::kUnknownOutcome) {
    const auto since = silent_since_.emplace(site.name, Clock::now()).first->second;
    if (Clock::now() < since + kSilenceMax) return Stale("the site does not answer");
    return NotLeader("the site does not answer");
  }
  silent_since_.erase(site.name);
  if (code == Code::kNotFound) {
    return NotFound("the site does not know how to compare: it has an earlier version of TopicDB");
  }
  TOPICDB_RETURN_IF_ERROR(answer.status());
  TOPICDB_RETURN_IF_ERROR(answer->status);
  return DecodeReplicaDigest(answer->digest);
}

std::string ClusterCheck::Describe(const std::string& family) const {
  SlabFamily named;
  if (!DecodeName(family, &named)) return "the records of the shard";
  const char* const part = named.part == FamilyPart::kKeys     ? "keys"
                           : named.part == FamilyPart::kBlocks ? "blocks"
                                                               : "pages";
  const RetentionClassId id = named.retention_class;
  const std::string filter =
      id < rules_.ids_end() ? rules_.FilterOf(id) : std::to_string(id.value());
  return std::string("the ") + part + " of class '" + filter + "', generation " +
         std::to_string(named.generation.value());
}

}  // namespace topicdb::replication
