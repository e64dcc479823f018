// Makes a damaged database whole again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/status.h"
#include "topicdb/verify.h"

namespace topicdb {

// What RepairDatabase has found and done.
struct Repair {
  std::vector<std::uint32_t> shards;  // that were made anew, sorted
  std::uint64_t messages = 0;         // that the new shards have
  std::string quarantine;             // where the damaged shards are now; empty if there are none
  // What was damaged. Problem::messages says how many messages are lost.
  std::vector<Problem> problems;
  std::vector<Problem> remaining;  // what is still damaged, because it could not be repaired
};

// The steps of a repair, in their order: it verifies the database, makes the damaged shards anew,
// and checks what it has made.
enum class RepairPhase { kVerify, kRebuild, kCheck };

// What RepairDatabase may do, and how it tells of its progress.
struct RepairOptions {
  // Whether it makes empty shards in the place of those whose directories are gone. If false, they
  // are among `remaining`: perhaps the directory is only somewhere else.
  bool replace_missing = false;
  // Called by the calling thread some times a second with numbers of messages, which are estimates.
  // Each phase counts anew.
  std::function<void(RepairPhase phase, std::uint64_t done, std::uint64_t total)> progress =
      nullptr;
};

// Verifies the database at `path`, and makes shards with damage anew from all that can be read of
// them. Moves the damaged shards to `<path>/quarantine/<time>`, and leaves other shards as they
// are. A damaged shard stays in its place until the new one is complete and durable. Needs as much
// free space as the damaged shards take.
//
// Returns kLocked if any handle has a shard open for writing, and kCorruption if the descriptor or
// the retention file is damaged. Returns kSchema for a newer format. Also returns kNotFound,
// kInterrupted and kStorage.
Result<Repair> RepairDatabase(const std::string& path, const RepairOptions& options,
                              const InterruptCheck& interrupted = nullptr);

}  // namespace topicdb
