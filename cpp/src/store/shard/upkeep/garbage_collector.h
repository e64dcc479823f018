// Removes garbage: what was deleted or replaced by sealing and is still in files.
#pragma once

#include <atomic>

#include "store/shard/state/disk_usage.h"
#include "store/shard/state/shard_state.h"
#include "topicdb/types/stats.h"

namespace topicdb {

// Which garbage GarbageCollector::Collect removes.
enum class GarbageScope {
  kSettled,  // nearly all of read-only slabs; of others, only if it is most of their pages
  kAll,      // the same, and all garbage of other slabs that is worth the work
  kQuick,    // the same as kAll, but only of slabs that are small enough to be done quickly
};

// Finds garbage in the files of a shard, and has RocksDB write the files anew without it. A Shard
// owns it. Thread-safe.
class GarbageCollector {
 public:
  GarbageCollector(ShardState& shard, DiskUsage& disk) : shard_(shard), disk_(disk) {}

  // Removes the garbage in this scope that is worth the work. Leaves out a slab while a reader
  // holds a view from before the slab's last removal. Returns early, and OK, once `canceled` is
  // true; `canceled` may be null. Does nothing in a read-only shard.
  Status Collect(GarbageScope scope, std::atomic<bool>* canceled) TOPICDB_EXCLUDES(shard_.mutex);
  // Sets the bytes on disk and the bytes of garbage of a slab in `usage`.
  void Measure(const Slab& slab, SlabUsage* usage) const;

 private:
  // Returns whether the garbage of a slab is worth removing in this scope.
  bool IsDue(const SlabView& view, GarbageScope scope) const;
  // Makes RocksDB write the files of a slab anew where they have garbage.
  Status CollectOf(const Slab& slab, std::atomic<bool>* canceled) TOPICDB_EXCLUDES(shard_.mutex);

  ShardState& shard_;
  DiskUsage& disk_;
};

}  // namespace topicdb
