#pragma once

#include <array>
#include <cstdint>

namespace topicdb {

// Returns the time of the system's clock in µs since 1970-01-01 UTC. It may step back.
std::int64_t SystemClockUs();

// Identifies the period since the machine was last started.
using BootId = std::array<std::uint8_t, 16>;

// What the clocks show at one moment.
struct ClockReading {
  BootId boot{};             // zeros: the system does not tell
  std::int64_t boot_us = 0;  // since the machine was started, including the time that it slept
  std::int64_t wall_us = 0;  // as SystemClockUs
  bool operator==(const ClockReading&) const = default;
};

// Returns what the clocks show now. Thread-safe.
ClockReading ReadClocks();

}  // namespace topicdb
