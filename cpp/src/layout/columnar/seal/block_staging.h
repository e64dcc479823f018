// Brings staged blocks into a slab. layout/staged_block.h makes them.
#pragma once

#include <rocksdb/write_batch.h>

#include "layout/layout.h"
#include "layout/staged_block.h"

namespace topicdb::columnar {

// Adds to the batch the records that make the block one of the slab's fresh blocks. Returns
// kCorruption if the block is none that was ever staged.
Status InstallStaged(const SlabFamilies& families, LayoutState* state, const StagedBlock& block,
                     const StagedPlace& place, rocksdb::WriteBatch* batch);

Result<StagedState> FindStaged(const RocksSource& source, std::uint64_t pages);

// Removes the staged pages that belong to no block of the slab.
Status RemoveUnplaced(const RocksSource& source);

}  // namespace topicdb::columnar
