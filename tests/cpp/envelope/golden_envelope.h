#pragma once

#include <string_view>

namespace topicdb {

using std::string_view_literals::operator""sv;

// An envelope of version 1. Its bytes have been the same since the first release.
inline constexpr std::string_view kGolden =
    "\xf5TDE\x01\x01\x02\x02\x01\x03\x06pump-7\x04\x01\x05\x90\x1c\x06\x0atext/plain\x07\x04re/7"
    "\x08\x02\x00\xff\x09\x04unit\x03\xc2\xb0\x43\x09\x04unit\x01K\x0a\x01\x0a\xac\x02\x0f\x04"
    "21.5\x18\x5e\xae\x89"sv;

}  // namespace topicdb
