// Which shards other sites should lead, so that each site leads about as many.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace topicdb::replication {

// That a shard is to be led by another replica.
struct LeaderMove {
  std::uint32_t shard = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool operator==(const LeaderMove&) const = default;
};

// Returns the fewest moves after which no replica leads two shards more than another. `leaders` are
// by shard, and 0 where none is known; such a shard stays as it is, and so does one whose leader is
// not among `replicas`.
std::vector<LeaderMove> PlanBalance(std::map<std::uint32_t, std::uint64_t> leaders,
                                    const std::set<std::uint64_t>& replicas);

}  // namespace topicdb::replication
