// Records that end with the CRC-32 of all bytes before it, little-endian. What they begin with, a
// magic or a version, is up to those who write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace topicdb {

// The record with its checksum appended.
std::string CloseRecord(std::string record);

// What is between `head` and the checksum; absent if either is wrong.
std::optional<std::string_view> OpenRecord(std::string_view record, std::string_view head);

}  // namespace topicdb
