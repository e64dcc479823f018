// Keeps the memory of a shard up to date that another process writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/shard/replay/batch_records.h"
#include "store/shard/state/disk_usage.h"
#include "store/shard/state/shard_state.h"

namespace topicdb {

// Takes the batches that were written to the RocksDB of a shard by its log, and not by the objects
// of the shard: those of a leader whose entries this process applies. Brings the numbers, the
// retention rules, the slabs, the structures, the deletes and the jobs in memory to what the
// records say, and publishes a view. What only a writer needs is not brought up to date:
// LoadToWrite reads it. A Shard owns it. One thread at a time calls Take, while nobody else writes
// to the shard.
class ShardReplay {
 public:
  ShardReplay(ShardState& shard, DiskUsage& disk) : shard_(shard), disk_(disk) {}

  // Takes a batch that was written. Batches must come in the order in which they were written.
  // Returns kCorruption if a record cannot be right. Then memory and RocksDB differ, so the shard
  // must be opened again.
  Status Take(const rocksdb::WriteBatch& batch) TOPICDB_EXCLUDES(shard_.mutex);
  // Gives back the slabs that it knows. Take finds them again.
  void Forget() TOPICDB_EXCLUDES(shard_.mutex) {
    const MutexLock lock(shard_.mutex);
    by_family_.clear();
    indexed_.reset();
  }

 private:
  // Returns the present slabs, if the batch adds, ends or removes some or changes the rules, or
  // else the same as before.
  Result<SlabViews> SlabsAfter(const BatchRecords& records) TOPICDB_REQUIRES(shard_.mutex);
  // Adds a slab, or changes it to what its record says.
  Status PutSlab(const SlabId& id, const meta::SlabRecord& record, std::vector<SlabView>* slabs)
      TOPICDB_REQUIRES(shard_.mutex);
  // Adds structures and counters to slabs that were there before the batch.
  Status TakeStructures(const BatchRecords& records) TOPICDB_REQUIRES(shard_.mutex);
  // Returns a slab, or null if the shard has none with this id.
  Slab* FindSlab(const SlabId& id) const TOPICDB_REQUIRES(shard_.mutex);
  void TakeJobs(const BatchRecords& records) TOPICDB_REQUIRES(shard_.mutex);
  DeleteRecords DeletesAfter(const BatchRecords& records) TOPICDB_REQUIRES(shard_.mutex);
  // Notes for readers, and for the garbage collector, what was removed.
  void NoteRemovals(const BatchRecords& records) TOPICDB_REQUIRES(shard_.mutex);
  // Returns the slab that has this family, or null if none has.
  const Slab* SlabOf(std::uint32_t family) TOPICDB_REQUIRES(shard_.mutex);
  bool RemovesMessagesIn(std::uint32_t family, std::string_view key, bool deletes)
      TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
  DiskUsage& disk_;
  // The slabs by the numbers of their families, as of indexed_.
  std::unordered_map<std::uint32_t, const Slab*> by_family_ TOPICDB_GUARDED_BY(shard_.mutex);
  SlabViews indexed_ TOPICDB_GUARDED_BY(shard_.mutex);
};

}  // namespace topicdb
