// What Layout::Check takes and returns: it checks the stored records of a slab.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "structure/structure.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// A fault: something in the database that cannot be right.
struct Finding {
  std::string what;
  std::uint64_t messages = 0;  // how many messages the fault has lost, as far as that is known
  // The first and last timestamp of the lost messages, and the streams that they may belong to.
  std::optional<std::pair<std::int64_t, std::int64_t>> times = {};
  std::vector<StreamId> streams = {};
  bool is_counted = true;  // if false, more messages may be lost than `messages` says
};

// Says what to check, and what the slab's other records say. The check calls the functions from one
// thread.
struct SlabCheck {
  bool deep = false;  // if true, reads every message, not only the records about them
  Serial serial_max;  // the serial of the last commit
  // Returns the stream of a topic, or kNoStream if the slab has none for it.
  std::function<StreamId(std::string_view topic)> stream_of;
  // Returns the structure of a stream, or nothing if the slab has no such stream.
  std::function<std::optional<Structure>(StreamId stream)> structure_of;
  std::function<void(Finding)> report;  // takes each fault
  // Takes the number of messages that were checked since the last call. Returns true to stop.
  std::function<bool(std::uint64_t messages)> checked;
};

// How much a check has looked at.
struct CheckCounts {
  std::uint64_t blocks = 0;
  std::uint64_t pages = 0;     // pages that were read
  std::uint64_t messages = 0;  // stored messages, including deleted ones
};

}  // namespace topicdb
