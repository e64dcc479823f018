#include "base/clock.h"

#include <cctype>
#include <chrono>
#include <ctime>
#include <string_view>

#include "base/file/system_calls.h"

namespace topicdb {

namespace {

#ifdef CLOCK_BOOTTIME
constexpr clockid_t kBootClock = CLOCK_BOOTTIME;
#else
constexpr clockid_t kBootClock = CLOCK_MONOTONIC;  // on macOS it counts sleep, too
#endif

int HexDigit(char digit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return static_cast<int>(kDigits.find(digit));
}

// "b619378f-5970-4bda-b7e8-0ebe8409775e", or with upper case letters
BootId ReadBootId() {
  BootId id{};
  std::size_t digits = 0;
  for (const char letter : BootIdText()) {
    const auto digit = static_cast<unsigned char>(letter);
    if (std::isxdigit(digit) == 0 || digits == 2 * id.size()) continue;
    auto& byte = id[digits++ / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | HexDigit(static_cast<char>(std::tolower(digit))));
  }
  return digits == 2 * id.size() ? id : BootId{};
}

}  // namespace

WallTime ReadWallClock() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

ClockReading ReadClocks() {
  static const BootId boot = ReadBootId();
  timespec time{};
  clock_gettime(kBootClock, &time);
  const auto since_start = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  return {boot, BootTime(since_start), ReadWallClock()};
}

}  // namespace topicdb
