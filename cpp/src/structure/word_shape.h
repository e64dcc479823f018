// What the look of a topic level says of it: "socket0" and "socket7" are two of a kind, "STATE" and
// "SENSOR" are not.
#pragma once

#include <string>
#include <string_view>

namespace topicdb {

// Equal for words that differ in their numbers or identifiers only: "host12" gives "host0",
// "tasmota_A1B2C3" "tasmota_x", "00158d0001a2b3c4" "x". A word without digits gives itself.
std::string WordShape(std::string_view word);

}  // namespace topicdb
