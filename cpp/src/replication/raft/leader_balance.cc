#include "replication/raft/leader_balance.h"

#include <algorithm>

namespace topicdb::replication {

std::vector<LeaderMove> PlanBalance(std::map<std::uint32_t, std::uint64_t> leaders,
                                    const std::set<std::uint64_t>& replicas) {
  std::vector<LeaderMove> moves;
  if (replicas.empty()) return moves;
  std::map<std::uint64_t, std::size_t> counts;  // of shards, by replica
  for (const std::uint64_t replica : replicas) counts[replica] = 0;
  for (const auto& [shard, leader] : leaders) {
    if (const auto found = counts.find(leader); found != counts.end()) ++found->second;
  }
  const auto fewer = [](const auto& one, const auto& other) { return one.second < other.second; };
  for (;;) {
    const auto most = std::max_element(counts.begin(), counts.end(), fewer);
    const auto least = std::min_element(counts.begin(), counts.end(), fewer);
    if (most->second <= least->second + 1) return moves;
    const auto shard = std::find_if(leaders.begin(), leaders.end(),
                                    [&](const auto& one) { return one.second == most->first; });
    moves.push_back({shard->first, most->first, least->first});
    shard->second = least->first;
    --most->second;
    ++least->second;
  }
}

}  // namespace topicdb::replication
