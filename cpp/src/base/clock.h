#pragma once

#include <array>
#include <cstdint>

namespace topicdb {

// The system's clock, µs since 1970-01-01 UTC. May step back.
std::int64_t SystemClockUs();

// Names the time since the machine was last started.
using BootId = std::array<std::uint8_t, 16>;

// What the clocks show at one moment.
struct ClockReading {
  BootId boot{};             // zeros: the system does not tell
  std::int64_t boot_us = 0;  // since the machine was started, with the time that it slept
  std::int64_t wall_us = 0;  // as SystemClockUs
  bool operator==(const ClockReading&) const = default;
};

ClockReading ReadClocks();

}  // namespace topicdb
