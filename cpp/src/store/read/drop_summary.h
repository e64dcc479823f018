// Summarizes a slab that a shard drops, for readers that have not come to the slab.
#pragma once

#include <vector>

#include "store/view/shard_view.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Returns how many messages the slab has, by topics and commits. Reads what blocks say about
// themselves, and for some blocks the commits of their messages. Returns kCorruption or kStorage.
// REQUIRES (SummarizeLog): the layout of the slab has a log
Result<std::vector<meta::DropRecord::Part>> SummarizeLog(const ShardView& view, const Slab& slab);
// Does the same for a slab without a log. The numbers of messages are estimates, and count as those
// of the last commit that the slab may have.
Result<std::vector<meta::DropRecord::Part>> SummarizeState(const ShardView& view, const Slab& slab);

// Returns one record for two that follow each other. It says less of what was dropped: it does not
// tell topics and commits apart.
meta::DropRecord Coarse(const meta::DropRecord& older, const meta::DropRecord& newer);

// Returns an upper bound of the messages of the dropped slab that a reader lacks. The reader wants
// topics that match `filters`, from `timestamp_min` on, and nothing of commits after `until`. It
// has received everything before the commit `from_serial`.
std::uint64_t CountLost(const meta::DropRecord& drop, const std::vector<Filter>& filters,
                        std::int64_t timestamp_min, Serial from_serial, Serial until = kLastSerial);

}  // namespace topicdb
