// Measures how much the blocks of a slab hold of each stream.
#pragma once

#include "layout/layout.h"

namespace topicdb::columnar {

// Counts the messages of each stream by the directories of blocks. Reads only fresh blocks, and
// pages that may have messages of several streams. Returns kCorruption or kInterrupted.
Result<StreamSizes> SizesByStream(const RocksSource& source, const InterruptCheck& interrupted);

}  // namespace topicdb::columnar
