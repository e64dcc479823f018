// The way of staged blocks into a slab. How they are made: layout/staged_block.h.
#pragma once

#include <rocksdb/write_batch.h>

#include "layout/layout.h"
#include "layout/staged_block.h"

namespace topicdb::columnar {

// Adds to the batch what makes the block one of the slab's fresh ones. kCorruption: it is none that
// was ever staged.
Status InstallStaged(const SlabFamilies& families, LayoutState* state, const StagedBlock& block,
                     const StagedPlace& place, rocksdb::WriteBatch* batch);

Result<StagedState> FindStaged(const RocksSource& source, std::uint64_t pages);

// Removes pages of staged blocks that no block of the slab has.
Status RemoveUnplaced(const RocksSource& source);

}  // namespace topicdb::columnar
