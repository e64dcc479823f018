// Opens the RocksDB of a shard and reads its records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "commit/append_ids.h"
#include "store/shard/state/shard_state.h"

namespace topicdb {

// A shard as it was found on disk. Its slabs are not published yet.
struct LoadedShard {
  std::unique_ptr<ShardState> state;  // first: it closes RocksDB when all handles are given back
  std::vector<SlabView> slabs;
  // Empty if it is opened for reading.
  std::unique_ptr<AppendIds> append_ids = std::make_unique<AppendIds>();
  // What a crash or a drop has left: families that no record names, and slabs marked as dropping.
  FamiliesByName unnamed;
  std::vector<SlabId> dropping;
  std::uint64_t rules_version = 0;  // of the rules that its slabs follow; 0: not noted
};

// Returns the directory of a shard.
std::string ShardDirectory(const std::string& database_path, std::uint32_t index);

// Locks the shard unless it is opened for reading, and loads it. `create`: makes it first, without
// slabs; its directory must be absent. Returns kLocked, kCorruption, kStorage.
Result<LoadedShard> LoadShard(const std::shared_ptr<const ShardEnvironment>& environment,
                              std::uint32_t index, bool create);

}  // namespace topicdb
