// Learns structures for a new generation from topics of the generation that was closed.
// docs/internals/structures.md says how it decides, and why.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "structure/structure.h"

namespace topicdb {

// Returns at most `streams_max` structures, sorted, that together cover the topics. Returns the
// same structures for the same set of topics, in whatever order they come. Takes memory in
// proportion to the levels of the topics. Leaves out topics of more than 128 levels.
// REQUIRES: streams_max > 0
std::vector<Structure> LearnStructures(std::span<const std::string_view> topics,
                                       std::size_t streams_max);

}  // namespace topicdb
