// Opens the RocksDB of a shard and reads its records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "commit/append_ids.h"
#include "store/shard/state/shard_rocks.h"
#include "store/shard/state/shard_state.h"

namespace topicdb {

// A shard as it was found on disk. Its slabs are not published yet. LoadShard makes it, and
// Shard::Open takes it apart.
struct LoadedShard {
  std::unique_ptr<ShardState> state;  // first: it closes RocksDB when all handles are given back
  std::vector<SlabView> slabs;
  bool is_new = false;  // it has no slabs yet
  // Empty if the shard is opened read-only.
  std::unique_ptr<AppendIds> append_ids = std::make_unique<AppendIds>();
  // What a crash or a drop has left: families that no record names, and slabs that are marked as
  // dropping.
  FamiliesByName unnamed;
  std::vector<SlabId> dropping;
  std::uint64_t rules_version = 0;  // of the rules that the slabs follow; 0 if it is not noted
};

// Loads a shard, and locks it unless the environment is read-only. With `create`, creates the shard
// first, without slabs; its directory must be absent. Returns kLocked, kCorruption or kStorage.
Result<LoadedShard> LoadShard(const std::shared_ptr<const ShardEnvironment>& environment,
                              std::uint32_t index, bool create);

}  // namespace topicdb
