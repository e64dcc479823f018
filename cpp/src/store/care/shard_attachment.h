// What ties a shard to a replicated log: makes a shard of a local database a replica, and the copy
// of a replica a shard of a local database.
#pragma once

#include <cstdint>
#include <memory>

#include "store/catalog/meta.h"
#include "store/catalog/retention_class.h"
#include "store/view/shard_environment.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// What a copy of a replica has.
struct DetachedCopy {
  Serial serial;                                // of the last commit
  std::shared_ptr<const RetentionRules> rules;  // that its slabs follow; null if it notes none
};

// Removes from the copy of a replica what ties it to a replicated log, so that it can be written as
// a shard of a local database, which must have the rules of the copy or later ones. `environment`
// is that of the copy, which nobody has open. Returns kCorruption or kStorage.
Result<DetachedCopy> DetachCopy(const ShardEnvironment& environment, std::uint32_t shard);

// Notes in a shard of a local database that it is a replica which has applied this entry, and which
// rules it follows: those of the environment. From then on only a site writes it. Returns kLocked
// if somebody has the shard open, kCorruption and kStorage. May be repeated.
Status AttachShard(const ShardEnvironment& environment, std::uint32_t shard,
                   const meta::Applied& applied);

}  // namespace topicdb
