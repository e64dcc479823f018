// Takes slabs away, and tells readers that had not come to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/shard/commit/transaction_check.h"
#include "store/shard/state/disk_usage.h"
#include "store/shard/state/shard_state.h"

namespace topicdb {

// Drops slabs in two steps: a commit takes them out of sight, and later their families leave
// RocksDB, several at a time. A Shard owns it. Thread-safe.
class SlabDropper {
 public:
  SlabDropper(ShardState& shard, DiskUsage& disk, TransactionCheck& transactions)
      : shard_(shard), disk_(disk), transactions_(transactions) {}

  // Drops a read-only slab. What it had is noted, for readers that have not come to it. Its files
  // go at once, or, where there are many slabs, with those of others: see Finish. kNotFound,
  // kInvalidArgument.
  Status Drop(RetentionClassId retention_class, Generation generation)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Commits that the slabs `gone` are not there any more. `made`, if it is not null, is there from
  // then on, and `batch` has its records.
  Status Replace(const std::vector<std::shared_ptr<Slab>>& gone, std::shared_ptr<Slab> made,
                 rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(shard_.mutex);
  // Has the families of dropped slabs leave RocksDB. Once this returns, nothing of what was dropped
  // is on disk.
  Status Finish() TOPICDB_EXCLUDES(shard_.mutex);
  // As Finish, for who closes the shard.
  Status DropLeaving() TOPICDB_REQUIRES(shard_.mutex);
  // Gives back the handles of families that have yet to leave. Opening the shard drops them.
  void Clear() TOPICDB_REQUIRES(shard_.mutex) { leaving_.clear(); }

  // Returns the slabs that were dropped by commits behind this one; see meta::DropRecord.
  // kCorruption.
  Result<std::vector<meta::DropRecord>> DropsBehind(std::uint64_t serial) const;

 private:
  // Returns what Drop notes.
  meta::DropRecord DropOf(const ShardView& view, const Slab& slab) const;
  // Adds the record of a drop that is the next commit, and sees to it that there are not too many.
  Status PutDrop(const meta::DropRecord& drop, rocksdb::WriteBatch* batch) const;
  std::size_t CountDrops() const;

  ShardState& shard_;
  DiskUsage& disk_;
  TransactionCheck& transactions_;
  // Dropped but for their families, which go in one call where there are many; or on opening.
  std::vector<std::shared_ptr<Slab>> leaving_ TOPICDB_GUARDED_BY(shard_.mutex);
};

}  // namespace topicdb
