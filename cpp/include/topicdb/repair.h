// Making a damaged database whole again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/status.h"
#include "topicdb/verify.h"

namespace topicdb {

struct Repair {
  std::vector<std::uint32_t> shards;  // that were made anew, sorted
  std::uint64_t messages = 0;         // that they have now
  std::string quarantine;             // where the damaged ones are; empty if there are none
  // What was damaged, and what is lost by it: Problem::messages says how many messages.
  std::vector<Problem> problems;
  std::vector<Problem> remaining;  // what is still damaged: it could not be mended
};

enum class RepairPhase { kVerify, kRebuild, kCheck };

struct RepairOptions {
  // Of messages, about; from the calling thread, some times a second; each phase counts anew.
  std::function<void(RepairPhase phase, std::uint64_t done, std::uint64_t total)> progress =
      nullptr;
};

// Verifies the database at `path`. Shards with damage are made anew, from all that can be read of
// them; what they were is moved to `<path>/quarantine/<time>`. Others stay as they are. Until a new
// shard is complete and durable the damaged one is in its place. Needs as much free space as the
// damaged shards take. No handle may have any shard open for writing: kLocked.
// kCorruption if the descriptor or the retention file is damaged, kNotFound, kInterrupted,
// kStorage; kSchema for a newer format.
Result<Repair> RepairDatabase(const std::string& path, const RepairOptions& options,
                              const InterruptCheck& interrupted = nullptr);

}  // namespace topicdb
