// Reads what readers of a shard need.
#pragma once

#include <memory>
#include <vector>

#include "store/shard/state/shard_state.h"

namespace topicdb {

// Loads the numbers, the deletes, the jobs and the slabs of a shard, as its RocksDB has them now.
// The state of the shard takes all but the slabs, which are added to `slabs`. Returns kCorruption
// or kStorage.
Status LoadToRead(ShardState* shard, std::vector<SlabView>* slabs) TOPICDB_REQUIRES(shard->mutex);

// Returns a slab with the structures and counters that its records have now. Moves its families out
// of `families`.
Result<std::shared_ptr<Slab>> LoadSlab(const ShardState& shard, const SlabId& id,
                                       const meta::SlabRecord& record, FamiliesByName* families);

// Returns whether the rules of a shard have the class of a slab. A reader may have read the rules
// before a writer changed them; it then reads them again.
bool IsKnownClass(ShardState* shard, const SlabId& id) TOPICDB_REQUIRES(shard->mutex);

}  // namespace topicdb
