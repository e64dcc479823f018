#pragma once

#include <cstdint>

namespace topicdb {

// The system's clock, µs since 1970-01-01 UTC. May step back.
std::int64_t SystemClockUs();

}  // namespace topicdb
