// Compares and describes ranges of messages: a filter of topics and a range of time. Transactions
// read and delete by them, and conflict by them.
#pragma once

#include <cstdint>
#include <string>

#include "topicdb/types/ranges.h"

namespace topicdb {

// Returns "'a/+' from 5 to 9", for messages.
std::string Describe(const KeyRange& keys);
// Returns whether some time is in both ranges.
bool Intersects(const TimeRange& a, const TimeRange& b);
// Returns whether the range is one topic at one moment, so that it can be looked up.
bool IsPoint(const KeyRange& keys);

}  // namespace topicdb
