// Plans a step of sealing: which blocks of a slab it takes, and what it makes of them.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// One step of sealing. The BlockSealing that takes the step owns it.
struct SealingPlan {
  // What the step does.
  enum class Kind {
    kNothing,
    kPromote,  // staged blocks become sealed ones; no other fresh blocks are before them
    kMerge,    // the blocks become one block
    kSpread,   // the blocks become as many blocks as needed, one behind the other in time
  };
  Kind kind = Kind::kNothing;
  std::vector<Block> blocks;
  // The codec and level of the new blocks.
  PageCodec codec = PageCodec::kLz4;
  std::uint32_t level = 0;  // BlockEntry::level
};

// Returns the most urgent step. In this order, it takes:
//
//   fresh blocks, if they are due
//   small sealed blocks
//   a block of which half is deleted
//   blocks that overlap in time, unless the scope is kFresh
//   in a closed slab, a block that can be compressed better
//
// Returns kCorruption if a record is damaged.
Result<SealingPlan> PlanSealing(BlockReader* reader, const LayoutState& state,
                                const SealLimits& limits, SealScope scope);

}  // namespace topicdb::columnar
