// Looks at the files of a queue without opening it: what is there, what is damaged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/queue.h"
#include "topicdb/status.h"

namespace topicdb {

struct SegmentInfo {
  std::string path;
  std::uint64_t number = 0;
  SequenceRange items;
  std::uint64_t bytes = 0;  // up to the end of the last item
  bool sealed = false;
};

struct CursorInfo {
  std::string name;
  std::uint64_t low_water = 0;       // every smaller number is acknowledged
  std::uint64_t next_sequence = 0;   // of the first item that was never popped
  std::uint64_t unacknowledged = 0;  // items that were popped and not acknowledged
};

struct QueueInfo {
  QueueFormat format = QueueFormat::kTopicdb;
  bool closed = false;                // whether it was closed, as far as is known: not for kReplayq
  std::vector<SegmentInfo> segments;  // by number
  std::vector<CursorInfo> cursors;    // by name
  std::vector<QueueDamage> damage;    // found so far
};

// Not thread-safe. Changes nothing, takes no lock: beside a process that writes, what it says may
// be of different moments, and the end of the last segment looks torn.
class QueueInspector {
 public:
  // kNotFound, kCorruption if it is no queue, kStorage.
  static Result<std::unique_ptr<QueueInspector>> Open(const std::string& path);
  QueueInspector() = default;
  virtual ~QueueInspector() = default;
  QueueInspector(const QueueInspector&) = delete;
  QueueInspector& operator=(const QueueInspector&) = delete;

  // Damage to items is in it once they were read.
  virtual const QueueInfo& info() const = 0;
  // Some further stored items, acknowledged ones too, in their order; nothing at the end. They are
  // valid until the next call.
  virtual Result<std::vector<std::pair<std::uint64_t, std::string_view>>> Next() = 0;
};

// Makes a queue whose file QUEUE is damaged or missing usable again, from its segments, and has
// every other damage dealt with as opening does. What was found. kLocked if it is open.
Result<std::vector<QueueDamage>> RepairQueue(const std::string& path);

}  // namespace topicdb
