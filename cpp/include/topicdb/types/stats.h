// What a database tells about itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "topicdb/types/maintenance.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/read.h"

namespace topicdb {

// Statistics of one open shard.
struct ShardStats {
  std::uint32_t shard = 0;
  Serial serial;                        // of the last commit
  std::int64_t assigned_timestamp = 0;  // the last timestamp that was assigned
  // How far assigned_timestamp is ahead of the clock.
  std::chrono::microseconds clock_ahead{};
  // How far the clock is ahead of the time that is believed.
  std::chrono::microseconds clock_held{};
  std::uint64_t messages = 0;  // as in SlabInfo
  std::uint64_t bytes = 0;     // as in SlabInfo
  std::uint64_t streams = 0;
  std::uint64_t slabs = 0;
  std::uint64_t disk_bytes = 0;       // of the files of live data
  std::uint64_t memory_bytes = 0;     // of write buffers and table readers
  std::uint64_t structure_bytes = 0;  // memory of the learned structures
  std::uint64_t fresh_blocks = 0;     // blocks that are not sealed yet
  std::uint64_t fresh_bytes = 0;      // of the topics and values in these blocks
  std::string sealing_error;          // of the last step of sealing; empty if it succeeded
  bool is_sealing = false;            // if true, blocks are being sealed, or more may have to be
  // Bytes of topics and values that sealing has written since the shard was opened: those that it
  // wrote for the first time, and those that it wrote again.
  std::uint64_t sealed_bytes = 0;
  std::uint64_t resealed_bytes = 0;
  ReadCounters reads;  // that have finished since the shard was opened
};

// Statistics of an open database.
struct Stats {
  std::vector<ShardStats> shards;
  MissingReasons missing;         // shards that these figures leave out
  std::uint64_t cache_bytes = 0;  // of the cache that are in use
  MaintenanceStats maintenance;
};

}  // namespace topicdb
