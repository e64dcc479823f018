// Opens the RocksDB of a shard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <rocksdb/db.h>

#include "base/file/files.h"
#include "store/slab/slab.h"
#include "store/view/shard_environment.h"

namespace topicdb {

// The RocksDB of a shard. Whoever opened it owns it. RocksDB closes after all handles are given
// back.
struct ShardRocks {
  std::unique_ptr<rocksdb::DB> db;
  std::shared_ptr<FamilyHandle> default_family;
  FamiliesByName families;  // all others
};

// Returns the directory of a shard. That of a replica is a link to a directory beside it.
std::string ShardDirectory(const std::string& database_path, std::uint32_t index);

// Keeps others from writing to a shard. Returns kLocked if somebody else has the lock, and kForked
// if this process was forked from one that writes.
Result<std::unique_ptr<FileLock>> LockShard(const ShardEnvironment& environment,
                                            std::uint32_t index);
// Opens the RocksDB of a shard. With `create`, makes it first; its directory must be absent, or
// empty. If the directory is a link, RocksDB uses the one to which it leads, also when it leads to
// another one later. Returns kCorruption or kStorage. REQUIRES: the caller has the lock of the
// shard, unless the environment is read-only
Result<ShardRocks> OpenShardRocks(const ShardEnvironment& environment, std::uint32_t index,
                                  bool create);

}  // namespace topicdb
