// What is noted of a slab that is dropped, for readers that have not come to it.
#pragma once

#include <vector>

#include "store/view/shard_view.h"

namespace topicdb {

// How many messages it has, by topics and commits. Reads what blocks say of themselves, and of some
// the commits of their messages. kCorruption.
Result<std::vector<meta::DropRecord::Part>> SummarizeLog(const ShardView& view, const Slab& slab);

// The oldest of all, when there are too many: with less to be told of what was dropped.
meta::DropRecord Coarse(const meta::DropRecord& older, const meta::DropRecord& newer);

// Messages of the slab that a reader of these topics lacks which was given everything before a
// commit: so many at most.
std::uint64_t CountLost(const meta::DropRecord& drop, const std::vector<Filter>& filters,
                        std::int64_t start_us, std::uint64_t from_serial);

}  // namespace topicdb
