// What sealing has removed, and files still have: how much it is, and how it goes.
#pragma once

#include <atomic>

#include "store/shard/state/disk_usage.h"
#include "store/shard/state/shard_state.h"
#include "topicdb/types/stats.h"

namespace topicdb {

// Whose garbage is removed.
enum class GarbageScope {
  kSettled,  // of read-only slabs nearly all; of others only if it is most of what they have
  kAll,      // of others, too, whatever is worth the work
  kQuick,    // the same, where it takes no time that anybody would notice
};

// Finds garbage in the files of a shard, and has RocksDB write the files anew without it. A Shard
// owns it. Thread-safe.
class GarbageCollector {
 public:
  GarbageCollector(ShardState& shard, DiskUsage& disk) : shard_(shard), disk_(disk) {}

  // Removes the garbage of these slabs that is worth the work and that no reader sees any more:
  // readers that began before keep it. `canceled` ends it early; it may be null.
  Status Collect(GarbageScope scope, std::atomic<bool>* canceled) TOPICDB_EXCLUDES(shard_.mutex);
  // Fills in the bytes of a slab.
  void Measure(const Slab& slab, SlabUsage* usage) const;

 private:
  bool IsDue(const SlabView& view, GarbageScope scope) const;
  Status CollectOf(const Slab& slab, std::atomic<bool>* canceled) TOPICDB_EXCLUDES(shard_.mutex);

  ShardState& shard_;
  DiskUsage& disk_;
};

}  // namespace topicdb
