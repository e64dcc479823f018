// SystemMemoryIsHigh: finds out whether the system is short of memory.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "topicdb/queue.h"

namespace topicdb {

namespace {

// Memory is high when less than a fifth of it is available, as with the alarms of RabbitMQ and EMQX
// at 80 %.
constexpr std::uint64_t kAvailableParts = 5;

// Returns the number of KiB behind a name in /proc/meminfo, or nothing if it is not there.
std::optional<std::uint64_t> MemInfoKib(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t value = 0;
  while (file >> word) {
    if (word == name && file >> value) return value;
  }
  return std::nullopt;
}

// Returns the number with which a file begins, or nothing if there is none.
std::optional<std::uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Returns whether memory is high now.
bool Probe() {
  // Looks at the control group first, as in a container. There, page cache that could be given up
  // counts as used.
  const auto used = NumberIn("/sys/fs/cgroup/memory.current");
  const auto allowed = NumberIn("/sys/fs/cgroup/memory.max");  // "max" is no number
  if (used.has_value() && allowed.has_value()) {
    const std::uint64_t left = *allowed - std::min(*used, *allowed);
    if (left < *allowed / kAvailableParts) return true;
  }
  const auto total = MemInfoKib("MemTotal:");
  const auto available = MemInfoKib("MemAvailable:");
  return total.has_value() && available.has_value() && *available < *total / kAvailableParts;
}

}  // namespace

bool SystemMemoryIsHigh() {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::rep> asked{0};
  static std::atomic<bool> answer{false};
  const Clock::rep now = Clock::now().time_since_epoch().count();
  const Clock::rep second = Clock::duration(std::chrono::seconds(1)).count();
  Clock::rep last = asked.load();
  const bool due = last == 0 || now - last >= second;
  if (due && asked.compare_exchange_strong(last, now)) answer.store(Probe());
  return answer.load();
}

}  // namespace topicdb
