// What can be read of the records of a damaged shard.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rocks/salvage.h"
#include "store/catalog/meta.h"
#include "structure/structure.h"

namespace topicdb {

struct SalvagedSlab {
  // Absent: only its messages' families, or other records, tell that it was there.
  std::optional<meta::SlabRecord> record;
  std::optional<meta::SlabCounters> counters;
  std::map<NodeId, NodeRecord> nodes;

  // Of a stream that has all of its nodes.
  std::optional<Structure> StructureOf(NodeId stream) const;
};

struct ShardRecords {
  std::optional<meta::CommitState> state;
  std::map<SlabId, SalvagedSlab> slabs;
  // Records that go over as they are: unfinished deletes, samples, jobs.
  std::vector<std::pair<std::string, std::string>> kept;
  // Some may be missing without a trace.
  bool is_incomplete = false;
  std::vector<std::string> problems;
};

// kStorage
Result<ShardRecords> ReadShardRecords(const rocks::Salvage& salvage, std::uint32_t shard);

}  // namespace topicdb
