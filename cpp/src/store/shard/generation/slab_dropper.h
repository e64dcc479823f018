// Drops slabs, and notes what they had for readers that have not come to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/shard/commit/transaction_check.h"
#include "store/shard/state/disk_usage.h"
#include "store/shard/state/shard_state.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Drops slabs in two steps: a commit hides them from new readers, and later their column families
// are dropped from RocksDB, those of several slabs at a time. A Shard owns it. Thread-safe.
class SlabDropper {
 public:
  SlabDropper(ShardState& shard, DiskUsage& disk, TransactionCheck& transactions)
      : shard_(shard), disk_(disk), transactions_(transactions) {}

  // Drops a read-only slab, and notes what it had. Where there are many slabs, its families stay
  // until those of others are dropped, too: see Finish. Returns kNotFound if there is no such slab,
  // and kInvalidArgument if it is not read-only.
  Status Drop(RetentionClassId retention_class, Generation generation)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Removes the slabs `gone` from the shard and adds the slab `made`, unless it is null, with one
  // commit. `batch` must have the records of `made`; it is the batch that is written.
  Status Replace(const std::vector<std::shared_ptr<Slab>>& gone, std::shared_ptr<Slab> made,
                 rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(shard_.mutex);
  // Drops the families of all dropped slabs from RocksDB, which then removes their files once no
  // reader needs them.
  Status Finish() TOPICDB_EXCLUDES(shard_.mutex);
  // Does the same for a caller that holds the commit mutex and has checked that the shard may be
  // written.
  Status DropLeaving() TOPICDB_REQUIRES(shard_.mutex);
  // Gives back the handles of families that are not dropped yet. The next opening drops them.
  void Clear() TOPICDB_REQUIRES(shard_.mutex) { leaving_.clear(); }

  // Returns the records of slabs that commits after this one have dropped; see meta::DropRecord.
  // Returns kCorruption or kStorage.
  Result<std::vector<meta::DropRecord>> DropsBehind(Serial serial) const;

 private:
  // Returns the record that Drop notes, without its serial. It has no parts if the slab has no
  // messages.
  meta::DropRecord DropOf(const ShardView& view, const Slab& slab) const;
  // Adds the record of a drop to `batch`. If there are too many records, also makes one of the two
  // oldest.
  Status PutDrop(const meta::DropRecord& drop, rocksdb::WriteBatch* batch) const;
  std::size_t CountDrops() const;

  ShardState& shard_;
  DiskUsage& disk_;
  TransactionCheck& transactions_;
  // The dropped slabs whose families are still there. One call drops those of many slabs.
  std::vector<std::shared_ptr<Slab>> leaving_ TOPICDB_GUARDED_BY(shard_.mutex);
};

}  // namespace topicdb
