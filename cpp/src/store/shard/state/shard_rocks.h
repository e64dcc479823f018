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
// back, and the lock goes last.
struct ShardRocks {
  std::unique_ptr<FileLock> directory_lock;  // null if it is only read
  std::unique_ptr<rocksdb::DB> db;
  std::shared_ptr<FamilyHandle> default_family;
  FamiliesByName families;  // all others
};

// Returns the directory of a shard.
std::string ShardDirectory(const std::string& database_path, std::uint32_t index);

// Opens the RocksDB of a shard, and locks its directory unless the environment is read-only. With
// `create`, makes it first; its directory must be absent. Returns kLocked, kCorruption or kStorage.
Result<ShardRocks> OpenShardRocks(const ShardEnvironment& environment, std::uint32_t index,
                                  bool create);

}  // namespace topicdb
