// Opens the RocksDB of a shard and reads its records.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "store/shard/state/shard_rocks.h"
#include "store/shard/state/shard_state.h"
#include "store/shard/state/writer_loader.h"

namespace topicdb {

// What a shard is opened for. If its environment is read-only, it is only read.
enum class ShardUse : std::uint8_t {
  kCreate,  // it is made, without slabs; its directory must be absent
  kWrite,
  // It is brought up to date by the entries of a log, and made by them if it is absent. The caller
  // has the lock of the shard, and may open it anew before the old one is closed.
  kFollow,
};

// A shard as it was found on disk. Its slabs are not published yet. LoadShard makes it, and
// Shard::Open takes it apart.
struct LoadedShard {
  std::unique_ptr<ShardState> state;  // first: it closes RocksDB when all handles are given back
  std::vector<SlabView> slabs;
  WriterRecords writer;  // empty if the shard is not to be written
};

// Loads a shard, and locks it if it is written without a log of entries. Returns kLocked,
// kCorruption or kStorage, or what the log of the environment returns.
Result<LoadedShard> LoadShard(const std::shared_ptr<const ShardEnvironment>& environment,
                              std::uint32_t index, ShardUse use);

}  // namespace topicdb
