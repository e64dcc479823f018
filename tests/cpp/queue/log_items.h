// Appends to a log and reads it, for tests of logs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "queue/queue_log.h"

namespace topicdb {

using Items = std::vector<std::string>;

// Appends items, which must not fail. Returns the number of the first.
inline std::uint64_t AppendTo(QueueLog& log, const Items& items, bool through = true) {
  const std::vector<std::string_view> views(items.begin(), items.end());
  const auto first = log.Append(views, through);
  EXPECT_TRUE(first.ok()) << first.status().message();
  return first.ok() ? *first : 0;
}

// Returns what the reader finds from an item on: the items of the blocks that have it or newer
// ones, and "lost [first, end)".
inline Items ReadFrom(QueueLogReader& reader, std::uint64_t sequence) {
  Items found;
  while (true) {
    const auto event = reader.Load({sequence, 0, 0, 0});
    EXPECT_TRUE(event.ok()) << event.status().message();
    if (!event.ok() || *event == ReadEvent::kEnd) return found;
    if (*event == ReadEvent::kLost) {
      const LogDamage& lost = reader.lost();
      found.push_back("lost [" + std::to_string(lost.first_sequence) + ", " +
                      std::to_string(lost.end_sequence) + ")");
      sequence = lost.end_sequence;
    } else {
      const Block& block = reader.block();
      found.insert(found.end(), block.items.begin(), block.items.end());
      sequence = block.end_sequence();
    }
  }
}

}  // namespace topicdb
