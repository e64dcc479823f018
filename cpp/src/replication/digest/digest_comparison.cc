#include "replication/digest/digest_comparison.h"

#include <set>
#include <utility>

namespace topicdb::replication {

namespace {

using FamiliesByName = std::map<std::string, FamilyDigest>;

FamiliesByName ByName(const ReplicaDigest& digest) {
  FamiliesByName families;
  for (const FamilyDigest& family : digest.families) families[family.family] = family;
  return families;
}

// Returns the names of families that two replicas do not have alike.
std::set<std::string> Differences(const ReplicaDigest& one, const ReplicaDigest& other) {
  std::set<std::string> names;
  const FamiliesByName left = ByName(one);
  const FamiliesByName right = ByName(other);
  for (const auto& [families, others] : {std::pair(&left, &right), std::pair(&right, &left)}) {
    for (const auto& [name, family] : *families) {
      const auto found = others->find(name);
      if (found == others->end() || found->second != family) names.insert(name);
    }
  }
  return names;
}

// Returns the digest that more than half of the replicas have that were read, or null.
const ReplicaDigest* MajorityOf(const std::vector<const ReplicaDigest*>& read) {
  for (const ReplicaDigest* one : read) {
    std::size_t same = 0;
    for (const ReplicaDigest* other : read) same += *one == *other ? 1 : 0;
    if (2 * same > read.size()) return one;
  }
  return nullptr;
}

}  // namespace

std::vector<ReplicaVerification> CompareDigests(std::uint32_t shard, const DigestsBySite& digests,
                                                const DescribeFamily& describe) {
  std::vector<const ReplicaDigest*> read;
  for (const auto& [site, digest] : digests) {
    if (digest.ok()) read.push_back(&*digest);
  }
  const ReplicaDigest* const right = MajorityOf(read);
  std::vector<ReplicaVerification> found;
  for (const auto& [site, digest] : digests) {
    ReplicaVerification one;
    one.shard = shard;
    one.site = site;
    if (!digest.ok()) {
      const bool is_damaged = digest.status().code() == Code::kCorruption;
      one.outcome = is_damaged ? ReplicaOutcome::kDamaged : ReplicaOutcome::kNotCompared;
      one.why = digest.status().message();
    } else if (read.size() < 2) {
      one.outcome = ReplicaOutcome::kNotCompared;
      one.why = "no other replica could be read";
    } else {
      std::set<std::string> names;
      for (const ReplicaDigest* other : read) {
        if (right == nullptr || other == right) names.merge(Differences(*digest, *other));
      }
      for (const std::string& name : names) one.parts.push_back(describe(name));
      one.outcome = names.empty() ? ReplicaOutcome::kSame : ReplicaOutcome::kDiffers;
      if (right == nullptr) one.why = "no majority of the replicas has the same";
    }
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace topicdb::replication
