// Finds the messages of a slab in which some keys cannot be read.
#pragma once

#include "layout/layout.h"

namespace topicdb::skipstream {

// Hands out the messages that can be read, and reports the lost ones. Counts each lost message
// whose index entry is still there, because the entry has the message's time and the words of its
// topic. Returns kStorage, or an error of SlabSalvage::take.
Status SalvageSlab(const RocksSource& source, std::uint32_t timestamp_bytes,
                   const SlabSalvage& call);

}  // namespace topicdb::skipstream
