// Time limits that the steps of a call share.
#pragma once

#include <algorithm>
#include <chrono>

namespace topicdb::replication {

// Returns how long it is until a deadline: at most `most`, and at least 1 ms, so that each step is
// tried.
inline std::chrono::milliseconds LeftUntil(
    std::chrono::steady_clock::time_point deadline,
    std::chrono::milliseconds most = std::chrono::milliseconds::max()) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return std::clamp(left, std::chrono::milliseconds(1), most);
}

}  // namespace topicdb::replication
