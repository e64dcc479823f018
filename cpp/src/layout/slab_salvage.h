// What Layout::Salvage takes: it reads the messages of a damaged slab that can still be read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "layout/slab_check.h"
#include "structure/structure.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// A message that was found. Valid during the call that hands it out.
struct SalvagedRow {
  std::string_view topic;
  std::int64_t timestamp;
  Serial serial;
  std::uint32_t index;
  std::string_view value;
};

// Says how to salvage a slab. The salvage calls the functions from one thread.
struct SlabSalvage {
  // If true, records about messages may be missing without a trace.
  bool is_incomplete = false;
  // Returns the structure of a stream, or nothing if it is lost.
  std::function<std::optional<Structure>(StreamId stream)> structure_of;
  // Takes each message once. If the layout has a log, takes messages in the order of commits. An
  // error that it returns ends the salvage.
  std::function<Status(const SalvagedRow&)> take;
  std::function<void(Finding)> report;  // takes each report of lost messages or records
};

}  // namespace topicdb
