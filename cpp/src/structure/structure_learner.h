// Structures for a new generation, from topics of the one that is closed. docs/structures.md says
// how it decides, and why.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "structure/structure.h"

namespace topicdb {

// At most `streams_max` structures, sorted; together they cover the topics given. The same for the
// same set of topics, in whatever order. Takes memory in proportion to the levels of the topics;
// topics of more than 128 levels are left out. REQUIRES: streams_max > 0
std::vector<Structure> LearnStructures(std::span<const std::string_view> topics,
                                       std::size_t streams_max);

}  // namespace topicdb
