// Checking what a layout has stored of a slab.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "structure/structure.h"

namespace topicdb {

// Something that cannot be right.
struct Finding {
  std::string what;
  std::uint64_t messages = 0;  // that are lost by it, as far as that is known
  // Of those messages: from first to last timestamp, and the streams that they may be of.
  std::optional<std::pair<std::int64_t, std::int64_t>> times = {};
  std::vector<std::uint32_t> streams = {};
  bool is_counted = true;  // or more may be lost than `messages` says
};

// What is to be checked, and what the slab's other records say. Called from one thread.
struct SlabCheck {
  bool deep = false;             // every message, not only what tells of them
  std::uint64_t serial_max = 0;  // of the last commit
  std::function<std::uint32_t(std::string_view topic)> stream_of;  // 0: the slab has none for it
  std::function<std::optional<Structure>(std::uint32_t stream)> structure_of;
  std::function<void(Finding)> report;
  std::function<bool(std::uint64_t messages)> checked;  // so many more were; true: stop
};

struct CheckCounts {
  std::uint64_t blocks = 0;
  std::uint64_t pages = 0;     // that were read
  std::uint64_t messages = 0;  // stored ones, deleted ones among them
};

}  // namespace topicdb
