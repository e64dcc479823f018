// Brings staged blocks into a slab. StageBlock (layout/staged_block.h) makes them.
#pragma once

#include <rocksdb/write_batch.h>

#include "layout/layout.h"
#include "layout/staged_block.h"

namespace topicdb::columnar {

// Adds to the batch the records that make the block one of the slab's fresh blocks. Returns
// kCorruption if a record of the block is damaged or does not fit the others.
Status InstallStaged(const SlabFamilies& families, LayoutState* state, const StagedBlock& block,
                     const StagedPlace& place, rocksdb::WriteBatch* batch);

// As MessageLog::FindStaged.
Result<StagedState> FindStaged(const RocksSource& source, std::uint64_t pages);

// Removes the staged pages that belong to no block of the slab, with the log of the source.
Status RemoveUnplaced(const RocksSource& source);

}  // namespace topicdb::columnar
