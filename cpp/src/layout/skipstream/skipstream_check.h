// Compares the messages of a slab with their index entries and with the slab's structures.
#pragma once

#include "layout/layout.h"
#include "layout/slab_check.h"

namespace topicdb::skipstream {

// Checks one slab, and reports each fault. Without SlabCheck::deep, checks only each message by
// itself. Returns how much it has checked, or kInterrupted or kStorage.
Result<CheckCounts> CheckSlab(const RocksSource& source, std::uint32_t timestamp_bytes,
                              const SlabCheck& check);

}  // namespace topicdb::skipstream
