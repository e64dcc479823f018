// Reads what a process needs to write a shard.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "commit/append_ids.h"
#include "store/shard/state/shard_state.h"

namespace topicdb {

// What the writer of a shard needs besides what readers need. The Shard takes it apart.
struct WriterRecords {
  bool is_new = false;  // the shard has no slabs yet
  std::unique_ptr<AppendIds> append_ids = std::make_unique<AppendIds>();
  // What a crash or a drop has left: families that no record names, and slabs that are marked as
  // dropping.
  FamiliesByName unnamed;
  std::vector<SlabId> dropping;
  std::uint64_t rules_version = 0;  // of the rules that the slabs follow; 0 if it is not noted
};

// Makes a shard ready to be written, through its present log: loads the clock, the samples and the
// layouts of its slabs, which are `slabs`, and removes what a crash has left of blocks that were
// being sealed. If the shard has no identity, makes it first. May be repeated when the log is
// another one. Returns kCorruption or kStorage, or what the log returns.
Result<WriterRecords> LoadToWrite(ShardState* shard, const std::vector<SlabView>& slabs)
    TOPICDB_REQUIRES(shard->mutex);

}  // namespace topicdb
