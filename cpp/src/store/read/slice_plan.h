// Cutting slabs into slices of like size.
#pragma once

#include <vector>

#include "layout/blocks.h"
#include "store/read/stream_plan.h"

namespace topicdb {

// One request for each set of streams that any of the filters may find in the slab; what a filter
// before it finds, too, is masked where the layout reads streams one by one.
std::vector<ReadRequest> RequestsOf(const ShardView& view, const Slab& slab,
                                    const std::vector<Filter>& filters, const Slice& slice);

// Slices of what the filters find in the part `whole` of a slab; none if that is surely nothing.
Result<std::vector<Slice>> CutSlab(const ShardView& view, const Slab& slab,
                                   const std::vector<Filter>& filters, const Slice& whole,
                                   std::uint64_t bytes_max);

// Cuts between commits where blocks allow it, else by time. Each commit and moment of `whole` is in
// one slice.
std::vector<Slice> CutBlocks(const Slice& whole, std::vector<BlockInfo> blocks,
                             std::uint64_t bytes_max);

}  // namespace topicdb
