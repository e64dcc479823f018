// Making what the shards of one open database have in common.
#pragma once

#include <memory>
#include <string>

#include "store/create.h"
#include "store/shard.h"
#include "topicdb/options.h"

namespace topicdb {

// Of the database at `path`, opened with these options.
std::shared_ptr<ShardEnvironment> MakeShardEnvironment(const std::string& path,
                                                       const FoundDatabase& found,
                                                       const OpenOptions& options);

}  // namespace topicdb
