// What the blocks of a slab hold of each stream.
#pragma once

#include "layout/layout.h"

namespace topicdb::columnar {

// By directories; pages with messages of several streams, and fresh blocks, are read.
Result<StreamSizes> SizesByStream(const RocksSource& source, const InterruptCheck& interrupted);

}  // namespace topicdb::columnar
