#pragma once

#include <cstddef>
#include <string_view>

namespace topicdb {

// Returns the length of the UTF-8 sequence with which `bytes` begins, or 0 if it is malformed.
// RFC 3629 asks for the shortest form and no surrogates.
std::size_t Utf8SequenceLength(std::string_view bytes);

bool IsUtf8(std::string_view bytes);

}  // namespace topicdb
