// The RocksDB of a replica. The replicated log takes the place of RocksDB's own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include "base/thread/mutex.h"
#include "replication/entry.h"
#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"
#include "store/view/shard_environment.h"

namespace topicdb::replication {

// Writes batches to a RocksDB without its log, and notes in each batch which entry of the
// replicated log it is. Knows the column families by the names that all replicas share. RocksDB
// moves what was written to files in one step for all families. So after a crash the RocksDB is as
// it was after some entry, and the note says which one.
//
// The log of the shard owns it. The RocksDB must outlive it. Thread-safe. Nobody writes to the
// RocksDB in another way.
class UnloggedRocks {
 public:
  // Reads the note. Returns kCorruption if it is malformed.
  static Result<std::unique_ptr<UnloggedRocks>> Make(const OpenedShard& shard);

  // Returns the name of the shard, for messages.
  const std::string& name() const { return name_; }
  rocksdb::DB* db() const { return db_; }
  meta::Applied applied() const TOPICDB_EXCLUDES(mutex_);
  // Returns the last commit.
  Serial serial() const TOPICDB_EXCLUDES(mutex_);

  // Adds the note to the batch, and writes it. `serial` is the last commit in the batch, or absent.
  // Returns kStorage; then nothing more may be written.
  Status Write(rocksdb::WriteBatch* batch, const meta::Applied& applied,
               std::optional<Serial> serial) TOPICDB_EXCLUDES(mutex_);
  // Moves everything that was written to files.
  Status Flush() TOPICDB_EXCLUDES(mutex_);

  void Add(rocksdb::ColumnFamilyHandle* family) TOPICDB_EXCLUDES(mutex_);
  void Remove(rocksdb::ColumnFamilyHandle* family) TOPICDB_EXCLUDES(mutex_);
  // Return null, or nothing, if there is no such family.
  rocksdb::ColumnFamilyHandle* Find(const SlabFamily& family) const TOPICDB_EXCLUDES(mutex_);
  std::optional<SlabFamily> Find(std::uint32_t id) const TOPICDB_EXCLUDES(mutex_);
  // Returns all families, the default one first.
  rocks::FamilyHandles Families() const TOPICDB_EXCLUDES(mutex_);

 private:
  UnloggedRocks(const OpenedShard& shard, const meta::Applied& applied, Serial serial);

  rocksdb::DB* const db_;
  const std::string name_;
  rocksdb::ColumnFamilyHandle* const default_family_;

  mutable Mutex mutex_;
  meta::Applied applied_ TOPICDB_GUARDED_BY(mutex_);
  Serial serial_ TOPICDB_GUARDED_BY(mutex_);
  std::map<SlabFamily, rocksdb::ColumnFamilyHandle*> families_ TOPICDB_GUARDED_BY(mutex_);
  std::map<std::uint32_t, SlabFamily> by_id_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb::replication
