// Tells what the messages of each structure take on disk.
#pragma once

#include <vector>

#include "store/read/stream_plan.h"
#include "topicdb/interrupt.h"
#include "topicdb/status.h"
#include "topicdb/types/maintenance.h"

namespace topicdb {

// Returns what each structure takes in each class, by the names of both. Reads the directories of
// blocks and a few of their pages. Returns kCorruption or kInterrupted.
Result<std::vector<StructureUsage>> UsageByStructure(const std::vector<ShardMoment>& moments,
                                                     const InterruptCheck& interrupted);

}  // namespace topicdb
