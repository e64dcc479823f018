// The shape of a topic level, which tells whether words are of one kind: "socket0" and "socket7"
// are, "STATE" and "SENSOR" are not.
#pragma once

#include <string>
#include <string_view>

namespace topicdb {

// Returns the shape of a word. Words that differ only in their numbers or identifiers have the same
// shape: "host12" gives "host0", "tasmota_A1B2C3" gives "tasmota_x", and "00158d0001a2b3c4" gives
// "x". A word without digits gives itself.
std::string WordShape(std::string_view word);

}  // namespace topicdb
