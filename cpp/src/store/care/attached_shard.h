// Makes a shard of a local database the first replica of a shard.
#pragma once

#include <cstdint>

#include "store/catalog/meta.h"
#include "store/view/shard_environment.h"
#include "topicdb/status.h"

namespace topicdb {

// Notes in a shard that it is a replica which has applied this entry, and which rules it follows:
// those of the environment. From then on only a site writes it. `DetachCopy` does the opposite to a
// copy. Returns kLocked if somebody has the shard open, kCorruption and kStorage. May be repeated.
Status AttachShard(const ShardEnvironment& environment, std::uint32_t shard,
                   const meta::Applied& applied);

}  // namespace topicdb
