// Exports MQTT properties of messages as Arrow columns.
#pragma once

#include <cstddef>

#include "topicdb/arrow_abi.h"
#include "topicdb/message.h"

namespace topicdb {

inline constexpr std::size_t kPropertyColumns = 11;

// Returns the name of a column of properties. REQUIRES: column < kPropertyColumns
const char* PropertyColumnName(std::size_t column);
// Fills kPropertyColumns structures at `out`. The caller must release each of them.
void FillPropertySchemas(ArrowSchema* out);
// Fills kPropertyColumns structures from `stored`, which has messages as they are stored. All
// columns are null for a message without properties. The arrays own what they point to. The caller
// must release each of them.
void FillPropertyArrays(const Batch& stored, ArrowArray* out);

}  // namespace topicdb
