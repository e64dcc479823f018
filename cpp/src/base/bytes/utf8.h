#pragma once

#include <cstddef>
#include <string_view>

namespace topicdb {

// Length of the UTF-8 sequence at `bytes` (RFC 3629: shortest form, no surrogates), 0 if malformed.
std::size_t Utf8SequenceLength(std::string_view bytes);

bool IsUtf8(std::string_view bytes);

}  // namespace topicdb
