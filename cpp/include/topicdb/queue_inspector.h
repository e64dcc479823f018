// Looks at the files of a queue without opening it: what is there, and what is damaged.
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

// A segment file as it is on disk.
struct SegmentInfo {
  std::string path;
  std::uint64_t number = 0;
  SequenceRange items;
  std::uint64_t bytes = 0;  // up to the end of the last item
  bool sealed = false;      // closed: nothing more is appended to it
};

// A cursor as it was stored last.
struct CursorInfo {
  std::string name;
  std::uint64_t low_water = 0;       // every item with a smaller number is acknowledged
  std::uint64_t next_sequence = 0;   // number of the first item that was never popped
  std::uint64_t unacknowledged = 0;  // items that were popped and not acknowledged
};

// What the files of a queue say.
struct QueueInfo {
  QueueFormat format = QueueFormat::kTopicdb;
  bool closed = false;                // whether it was closed; not known for kReplayq
  std::vector<SegmentInfo> segments;  // by number
  std::vector<CursorInfo> cursors;    // by name
  std::vector<QueueDamage> damage;    // found so far
};

// Reads the files of one queue. The caller of Open owns it. Not thread-safe.
//
// It changes nothing and takes no lock. Beside a process that writes, its answers may be of
// different moments, and the end of the last segment looks torn.
class QueueInspector {
 public:
  // Opens the files of the queue at `path`. Returns kNotFound, kCorruption if it is no queue, or
  // kStorage.
  static Result<std::unique_ptr<QueueInspector>> Open(const std::string& path);
  QueueInspector() = default;
  virtual ~QueueInspector() = default;
  QueueInspector(const QueueInspector&) = delete;
  QueueInspector& operator=(const QueueInspector&) = delete;

  // Returns what is known so far. Damage to items is in it once Next has read them.
  virtual const QueueInfo& info() const = 0;
  // Returns some more of the stored items with their numbers, in order, including acknowledged
  // ones. Returns none at the end. The items are valid until the next call.
  virtual Result<std::vector<std::pair<std::uint64_t, std::string_view>>> Next() = 0;
};

// Makes a queue usable again, from its segments, if its file QUEUE is damaged or missing. Treats
// all other damage as opening does. Returns the damage that was found. Returns kLocked if the queue
// is open.
Result<std::vector<QueueDamage>> RepairQueue(const std::string& path);

}  // namespace topicdb
