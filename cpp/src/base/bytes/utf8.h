#pragma once

#include <cstddef>
#include <string_view>

namespace topicdb {

// Returns the length of the UTF-8 sequence with which `bytes` begins, or 0 if there is none or it
// is malformed. As RFC 3629 asks, a sequence that is not the shortest or that encodes a surrogate
// is malformed.
std::size_t Utf8SequenceLength(std::string_view bytes);

bool IsUtf8(std::string_view bytes);

}  // namespace topicdb
