// Records that end with the CRC-32 of all bytes before it, little-endian. The caller decides what
// they begin with, such as a magic or a version.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace topicdb {

// Returns the record with its checksum appended.
std::string CloseRecord(std::string record);

// Returns what is between `head` and the checksum, or nothing if either is wrong.
std::optional<std::string_view> OpenRecord(std::string_view record, std::string_view head);

}  // namespace topicdb
