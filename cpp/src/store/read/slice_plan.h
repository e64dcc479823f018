// Cuts slabs into slices of similar size.
#pragma once

#include <vector>

#include "layout/blocks.h"
#include "store/read/stream_plan.h"

namespace topicdb {

// Returns one request for each filter and each set of streams in the slab that may hold messages
// that match it. If the layout reads streams one by one, a request hides the messages that an
// earlier filter matches, too.
std::vector<ReadRequest> RequestsOf(const ShardView& view, const Slab& slab,
                                    const std::vector<Filter>& filters, const Slice& slice);

// Cuts the part `whole` of a slab into slices with at most about `bytes_max` bytes of messages that
// match the filters. Returns no slices if there are surely no such messages. Returns kCorruption or
// kStorage.
Result<std::vector<Slice>> CutSlab(const ShardView& view, const Slab& slab,
                                   const std::vector<Filter>& filters, const Slice& whole,
                                   std::uint64_t bytes_max);

// Cuts `whole` between commits where blocks allow it, otherwise by time. Each commit and each time
// of `whole` is in exactly one slice.
std::vector<Slice> CutBlocks(const Slice& whole, std::vector<BlockInfo> blocks,
                             std::uint64_t bytes_max);

}  // namespace topicdb
