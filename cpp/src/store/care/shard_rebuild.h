// Making a whole shard of what can be read of a damaged one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/shard/shard.h"
#include "topicdb/interrupt.h"
#include "topicdb/verify.h"

namespace topicdb {

struct RebuiltShard {
  std::uint64_t messages = 0;     // that it has
  std::vector<Problem> problems;  // what was damaged, and what is lost by it
};

// Reads the shard at `damaged`, which stays as it is, and writes all that can be read of it to
// `rebuilt`, where nothing is yet: messages with their serials, in the generations and under the
// structures that they had, all indexes anew. `scratch`: where nothing is yet; it is removed again.
// jobs: that it has applied, by what other shards know. Calls advance(messages) now and then.
// kStorage, kInterrupted.
Result<RebuiltShard> RebuildShard(const ShardEnvironment& environment, std::uint32_t shard,
                                  const std::string& damaged, const std::string& scratch,
                                  const std::string& rebuilt, const meta::JobRecords& jobs,
                                  const std::function<void(std::uint64_t)>& advance,
                                  const InterruptCheck& interrupted);

}  // namespace topicdb
