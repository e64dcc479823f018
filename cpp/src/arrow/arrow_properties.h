// MQTT properties of messages as Arrow columns.
#pragma once

#include <cstddef>

#include "topicdb/arrow_abi.h"
#include "topicdb/message.h"

namespace topicdb {

inline constexpr std::size_t kPropertyColumns = 11;

// Fills so many structures; each must be released by who gets it.
void FillPropertySchemas(ArrowSchema* out);
// `stored`: messages as they are stored. Where one has no properties, all columns are null. The
// arrays own what they point to.
void FillPropertyArrays(const Batch& stored, ArrowArray* out);

}  // namespace topicdb
