// Makes a whole shard of what can be read of a damaged one.
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

// What RebuildShard has done.
struct RebuiltShard {
  std::uint64_t messages = 0;     // in the rebuilt shard
  std::vector<Problem> problems;  // what was damaged, and what is lost by it
};

// Reads the shard at `damaged`, which stays as it is, and writes all that can be read to `rebuilt`.
// Messages keep their serials, generations and structures. All indexes are made anew. There must be
// nothing at `rebuilt` and `scratch`; this removes `scratch` again. `jobs` are the jobs that the
// shard has applied, as other shards know them; they count if records of the shard are lost. Calls
// advance(messages) in the calling thread now and then, with the messages since the last call.
// Returns kStorage or kInterrupted.
Result<RebuiltShard> RebuildShard(const ShardEnvironment& environment, std::uint32_t shard,
                                  const std::string& damaged, const std::string& scratch,
                                  const std::string& rebuilt, const meta::JobRecords& jobs,
                                  const std::function<void(std::uint64_t)>& advance,
                                  const InterruptCheck& interrupted);

// The greatest numbers that a shard can have used, of which nothing is left.
struct UsedNumbers {
  Serial serial;
  Generation generation;  // of any class
};

// Makes an empty shard at `rebuilt`, where nothing may be, for one of which nothing is left.
// Numbers its commits and generations behind `used`, so that a place or an iterator that somebody
// has stored does not mean another message now. `jobs` as in RebuildShard. Returns kStorage.
Result<RebuiltShard> ReplaceShard(const ShardEnvironment& environment, std::uint32_t shard,
                                  const std::string& rebuilt, const meta::JobRecords& jobs,
                                  const UsedNumbers& used);

}  // namespace topicdb
