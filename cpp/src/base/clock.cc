#include "base/clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <chrono>
#include <ctime>
#include <string_view>

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

// "b619378f-5970-4bda-b7e8-0ebe8409775e"
BootId ReadBootId() {
  BootId id{};
  std::array<char, 64> text{};
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return id;
  const ssize_t size = read(file, text.data(), text.size());
  close(file);
  std::size_t digits = 0;
  for (ssize_t i = 0; i < size && digits < 2 * id.size(); ++i) {
    const char digit = text[static_cast<std::size_t>(i)];
    if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) continue;
    auto& byte = id[digits++ / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | HexDigit(digit));
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
