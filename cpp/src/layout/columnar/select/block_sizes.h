// Measures how much the blocks of a slab hold of each stream.
#pragma once

#include "layout/layout.h"

namespace topicdb::columnar {

// Returns how much is stored of each stream, including deleted messages. Counts by the directories
// of blocks, and reads only fresh blocks and the pages that may have messages of several streams.
// Returns kCorruption or kInterrupted.
Result<StreamSizes> SizesByStream(const RocksSource& source, const InterruptCheck& interrupted);

}  // namespace topicdb::columnar
