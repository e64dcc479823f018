#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "topicdb/types/times.h"

namespace topicdb {

// Returns the time of the system's clock. It may step back.
WallTime ReadWallClock();

// The time since the machine was started, including the time that it slept.
using BootTime = std::chrono::time_point<struct BootClock, std::chrono::microseconds>;

// Identifies the period since the machine was last started.
using BootId = std::array<std::uint8_t, 16>;

// What the clocks show at one moment.
struct ClockReading {
  BootId boot{};  // zeros: the system does not tell
  BootTime boot_time{};
  WallTime wall_time{};  // as ReadWallClock
  bool operator==(const ClockReading&) const = default;
};

// Returns what the clocks show now. Thread-safe.
ClockReading ReadClocks();

}  // namespace topicdb
