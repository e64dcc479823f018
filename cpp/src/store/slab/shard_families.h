// The column families of a shard.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include <rocksdb/db.h>

#include "base/thread/mutex.h"

namespace topicdb {

// Owns a column family handle, and gives it back to RocksDB when it is destroyed. It must be
// destroyed before the RocksDB that it belongs to.
class FamilyHandle {
 public:
  FamilyHandle(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle) : db_(db), handle_(handle) {}
  ~FamilyHandle() { db_->DestroyColumnFamilyHandle(handle_).PermitUncheckedError(); }
  FamilyHandle(const FamilyHandle&) = delete;
  FamilyHandle& operator=(const FamilyHandle&) = delete;
  rocksdb::ColumnFamilyHandle* get() const { return handle_; }

 private:
  rocksdb::DB* const db_;
  rocksdb::ColumnFamilyHandle* const handle_;
};

// Slabs share the handles of their families with the shard.
using FamiliesByName = std::map<std::string, std::shared_ptr<FamilyHandle>>;

// Knows all column families of a shard except the default one, whether a slab has them or not.
// RocksDB hands out a handle only when it makes or opens a family, so somebody must keep those of
// families that were made for a slab that did not come to be. The state of the shard owns it. It
// must be empty before RocksDB closes. Thread-safe.
class ShardFamilies {
 public:
  void Add(const FamiliesByName& families) TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    families_.insert(families.begin(), families.end());
  }
  // Forgets a family that RocksDB has dropped.
  void Remove(const std::string& name) TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    families_.erase(name);
  }
  void Clear() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    families_.clear();
  }
  FamiliesByName all() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return families_;
  }

 private:
  mutable Mutex mutex_;
  FamiliesByName families_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
