// Checks the messages of a slab against their index entries and the slab's structures.
#pragma once

#include "layout/layout.h"
#include "layout/slab_check.h"

namespace topicdb::skipstream {

// Reports what it finds; without `deep` it only reads keys. kInterrupted, kStorage.
Result<CheckCounts> CheckSlab(const RocksSource& source, std::uint32_t timestamp_bytes,
                              const SlabCheck& check);

}  // namespace topicdb::skipstream
