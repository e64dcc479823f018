// Finds the messages of a slab some of whose keys cannot be read.
#pragma once

#include "layout/layout.h"

namespace topicdb::skipstream {

// What is lost is known one by one where the messages' index entries are there: those have time and
// words of their topics.
Status SalvageSlab(const RocksSource& source, std::uint32_t timestamp_bytes,
                   const SlabSalvage& call);

}  // namespace topicdb::skipstream
