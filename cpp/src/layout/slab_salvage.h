// Reading what can be read of a damaged slab.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "layout/slab_check.h"
#include "structure/structure.h"
#include "topicdb/status.h"

namespace topicdb {

// A message that was found; valid during the call that gives it.
struct SalvagedRow {
  std::string_view topic;
  std::int64_t timestamp;
  std::uint64_t serial;
  std::uint32_t index;
  std::string_view value;
};

// Called from one thread.
struct SlabSalvage {
  // Records that tell of messages may be missing without a trace.
  bool is_incomplete = false;
  std::function<std::optional<Structure>(std::uint32_t stream)> structure_of;
  // Each message once; of layouts that have a log, in the order of commits. What it returns ends
  // the reading.
  std::function<Status(const SalvagedRow&)> take;
  std::function<void(Finding)> report;  // of what is lost
};

}  // namespace topicdb
