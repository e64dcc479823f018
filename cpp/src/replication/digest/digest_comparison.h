// Compares the digests of all replicas of a shard.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "replication/digest/replica_digest.h"
#include "topicdb/status.h"
#include "topicdb/types/replicas.h"

namespace topicdb::replication {

// The digests of the replicas of a shard at one entry, by the names of their sites, or why there is
// none: kCorruption if the replica cannot be read.
using DigestsBySite = std::map<std::string, Result<ReplicaDigest>>;
// Returns what people call a column family, from its name in RocksDB.
using DescribeFamily = std::function<std::string(const std::string& family)>;

// Says of each replica whether it has what the others have. If more than half of those that were
// read have the same, the others differ from them. Otherwise nobody knows which are right, so all
// of them differ.
std::vector<ReplicaVerification> CompareDigests(std::uint32_t shard, const DigestsBySite& digests,
                                                const DescribeFamily& describe);

}  // namespace topicdb::replication
