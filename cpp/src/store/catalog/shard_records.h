// Reads what is left of the records of a damaged shard.
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

// What is left of the records of one slab.
struct SalvagedSlab {
  // Absent if only the slab's column families, or other records, tell that the slab was there.
  std::optional<meta::SlabRecord> record;
  std::optional<meta::SlabCounters> counters;
  std::map<NodeId, NodeRecord> nodes;

  // Returns the structure of a stream, or nothing if a node of the stream is missing.
  std::optional<Structure> StructureOf(StreamId stream) const;
};

// What is left of the records of a shard.
struct ShardRecords {
  std::optional<meta::CommitState> state;
  std::map<SlabId, SalvagedSlab> slabs;
  // Records that the rebuilt shard takes over unchanged: unfinished deletes, samples, jobs.
  std::vector<std::pair<std::string, std::string>> kept;
  // True if records may be missing without a trace.
  bool is_incomplete = false;
  std::vector<std::string> problems;
};

// Returns the records that can be read of the shard with this number. Damage is no error: the
// result reports it. Returns kStorage if reading fails.
Result<ShardRecords> ReadShardRecords(const rocks::Salvage& salvage, std::uint32_t shard);

}  // namespace topicdb
