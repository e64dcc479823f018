// Which blocks of a slab a step of sealing takes, and what becomes of them.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/layout.h"

namespace topicdb::columnar {

struct SealingPlan {
  enum class Kind {
    kNothing,
    kPromote,  // staged blocks with nothing before them among the fresh ones become sealed ones
    kMerge,    // one block is made of them
    kSpread,   // as many blocks as needed are made of them, one behind the other in time
  };
  Kind kind = Kind::kNothing;
  std::vector<Block> blocks;
  // Of what is made.
  PageCodec codec = PageCodec::kLz4;
  std::uint32_t level = 0;  // BlockEntry::level
};

// The most urgent step of these: fresh blocks, if that is due; small sealed blocks; one of which
// half is deleted; those that overlap in time; and, in a closed slab, one that can be compressed
// better. kCorruption.
Result<SealingPlan> PlanSealing(BlockReader* reader, const LayoutState& state,
                                const SealLimits& limits, SealScope scope);

}  // namespace topicdb::columnar
