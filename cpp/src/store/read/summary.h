// Counts the messages of a read in groups; see Database::Summarize.
#pragma once

#include <vector>

#include "store/read/slice_source.h"
#include "store/read/stream_plan.h"
#include "topicdb/interrupt.h"
#include "topicdb/types/summary.h"

namespace topicdb {

// Returns kInvalidArgument, which names the option, if these options cannot be right.
Status CheckSummaryOptions(const SummaryOptions& options);

// Returns the groups of the messages of these targets in the range, sorted by topic and time. Each
// message of a target must be in no other target. Errors name the slab. Returns kCorruption,
// kInterrupted or kStorage, or kInvalidArgument if there are too many groups.
// REQUIRES: CheckSummaryOptions returned OK
Result<std::vector<MessageGroup>> SummarizeTargets(const std::vector<StreamTarget>& targets,
                                                   const TimeRange& range,
                                                   const SummaryOptions& options,
                                                   const InterruptCheck& interrupted);

// As above, but for the messages of these parts of slices.
Result<std::vector<MessageGroup>> SummarizeParts(const std::vector<SlicePart>& parts,
                                                 const SummaryOptions& options,
                                                 const InterruptCheck& interrupted);

}  // namespace topicdb
