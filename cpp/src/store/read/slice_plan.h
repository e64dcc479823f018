// Cuts slabs into slices of similar size.
#pragma once

#include <vector>

#include "layout/blocks.h"
#include "store/read/stream_plan.h"

namespace topicdb {

// Returns one request for each set of streams that any of the filters may find in the slab. Where
// the layout reads streams one by one, a request masks what an earlier filter also finds.
std::vector<ReadRequest> RequestsOf(const ShardView& view, const Slab& slab,
                                    const std::vector<Filter>& filters, const Slice& slice);

// Cuts what the filters find in the part `whole` of a slab into slices. Returns none if they surely
// find nothing. kCorruption.
Result<std::vector<Slice>> CutSlab(const ShardView& view, const Slab& slab,
                                   const std::vector<Filter>& filters, const Slice& whole,
                                   std::uint64_t bytes_max);

// Cuts `whole` between commits where blocks allow it, otherwise by time. Each commit and each time
// of `whole` is in exactly one slice.
std::vector<Slice> CutBlocks(const Slice& whole, std::vector<BlockInfo> blocks,
                             std::uint64_t bytes_max);

}  // namespace topicdb
