// Ranges of messages (filter and time), as transactions read, delete and conflict by them.
#pragma once

#include <cstdint>
#include <string>

#include "topicdb/types/ranges.h"

namespace topicdb {

// "'a/+' from 5 to 9", for messages.
std::string Describe(const KeyRange& keys);
bool Intersects(const TimeRange& a, const TimeRange& b);
// Whether it is one topic at one moment, so that it can be looked up.
bool IsPoint(const KeyRange& keys);

}  // namespace topicdb
