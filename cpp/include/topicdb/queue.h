// A buffer queue: what producers append is popped, and when it is acknowledged it is gone. In
// memory, on disk, or on disk when there is much of it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// Where items are kept. DO NOT CHANGE THESE VALUES: bindings use them.
enum class QueueMode : std::uint8_t {
  kMemory = 1,    // never on disk
  kDisk = 2,      // always on disk
  kOffload = 3,   // on disk once they are more than segment_bytes, and when the queue is closed
  kVolatile = 4,  // as kOffload, but nothing is kept: opening deletes what is there
};

// How the files are encoded. DO NOT CHANGE THESE VALUES: bindings use them.
enum class QueueFormat : std::uint8_t {
  kTopicdb = 1,
  kReplayq = 2,  // as EMQX's replayq reads and writes them: one cursor, acknowledged in order
};

// What happens to an append that would exceed a limit. DO NOT CHANGE THESE VALUES.
enum class OverflowPolicy : std::uint8_t {
  kDropOldest = 1,  // the oldest items go that wait; never what is in flight
  kReject = 2,      // kQuota
  kBlock = 3,       // waits for room; kQuota after block_timeout
};

// Why items were dropped. DO NOT CHANGE THESE VALUES.
enum class DropReason : std::uint8_t {
  kOverflow = 1,  // there was no room
  kMemory = 2,    // the system was short of memory
  kPurge = 3,     // Purge
  kDamage = 4,    // they could not be read from disk
};
inline constexpr std::size_t kDropReasons = 4;

// "overflow", "memory", "purge", "damage".
const char* NameOf(DropReason reason);

// Items with consecutive numbers.
struct SequenceRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  std::uint64_t end() const { return first + count; }
  bool operator==(const SequenceRange&) const = default;
};

// Items that a cursor will not deliver.
struct Drop {
  DropReason reason = DropReason::kOverflow;
  std::string cursor;
  SequenceRange items;
  std::uint64_t bytes = 0;  // stored, with their headers
};

// A limit that several queues share. Thread-safe.
class QueueBudget {
 public:
  explicit QueueBudget(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}
  std::uint64_t bytes_max() const { return bytes_max_; }
  // Of all queues that use it.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  friend class QueueImpl;
  const std::uint64_t bytes_max_;
  std::atomic<std::uint64_t> bytes_{0};
};

struct QueueOptions {
  QueueMode mode = QueueMode::kDisk;
  // Absent: as the directory is, or TopicDB's own. kReplayq is for QueueMode::kDisk only.
  std::optional<QueueFormat> format;
  // A segment file of so many bytes is closed and another begun; kOffload: what is kept in memory.
  // The default is that of EMQX's Kafka producers.
  std::uint64_t segment_bytes = std::uint64_t{10} << 20;
  // Bytes, with headers, of what one cursor has not acknowledged. The default is replayq's.
  std::uint64_t bytes_max = 2'000'000'000;
  // A longer item is kInvalidArgument. The default is MQTT's longest payload.
  std::uint64_t item_bytes_max = 268'435'455;
  OverflowPolicy overflow = OverflowPolicy::kDropOldest;
  std::optional<std::chrono::microseconds> block_timeout;  // absent: for ever
  // Of appends that do not say. kMemory, kOffload and kVolatile have kNone unless asked for more.
  Durability durability = Durability::kOs;
  // What was appended with kNone is the operating system's after so long, and acknowledgements
  // are; so a kill -9 costs no more than that, and delivers no more again.
  std::chrono::microseconds flush_interval{100'000};
  // What was appended is fsynced after so long; absent: only for who asks for kDisk.
  std::optional<std::chrono::microseconds> sync_interval;
  std::shared_ptr<QueueBudget> budget;
  // While this says true, an append drops as many bytes of the oldest items as it adds. Called by
  // appends, without a lock held.
  std::function<bool()> memory_is_high;
  // Called when items were dropped, without a lock held, by whom it happened to. Must not throw.
  std::function<void(const Drop&)> on_drop;
};

// Whether less than a fifth of the system's memory (or of the control group's) is available. Looks
// once in a second. Thread-safe.
bool SystemMemoryIsHigh();

struct QueueReceipt {
  SequenceRange items;
  Durability durability = Durability::kNone;  // that was reached
};

struct PopLimits {
  std::size_t count = 1'000;        // at least 1
  std::uint64_t bytes = 2'000'000;  // of items without headers; at least 1
  // Takes items until they have `bytes`; else ends before the item that would exceed them, but
  // takes one in any case.
  bool at_least = false;
  // Asked about each item in order, without a lock held: true leaves it and those behind it in the
  // queue. Must not throw. May be empty.
  std::function<bool(std::string_view)> stop_before = nullptr;
};

// Items that were handed out and are to be acknowledged. Immutable.
struct Delivery {
  std::vector<std::string_view> items;
  std::vector<SequenceRange> ranges;                // their numbers, ascending
  std::vector<std::shared_ptr<const void>> owners;  // of the items' bytes

  bool empty() const { return items.empty(); }
  void clear() {
    items.clear();
    ranges.clear();
    owners.clear();
  }
};

struct CursorStats {
  std::string name;
  std::uint64_t waiting = 0;        // items that can be popped
  std::uint64_t in_flight = 0;      // items that were popped and not acknowledged
  std::uint64_t bytes = 0;          // stored, with headers, of both
  std::uint64_t next_sequence = 0;  // of the first item that was never popped
  std::uint64_t low_water = 0;      // every smaller number is acknowledged
  std::uint64_t dropped_items[kDropReasons + 1] = {};  // by DropReason, since the queue was opened
  std::uint64_t dropped_bytes[kDropReasons + 1] = {};
};

// Something found damaged; what it cost is also counted as dropped.
struct QueueDamage {
  std::string path;
  std::string what;
  SequenceRange items;
};

struct QueueStats {
  std::uint64_t next_sequence = 0;
  std::uint64_t segments = 0;        // files
  std::uint64_t disk_bytes = 0;      // of segment files
  std::uint64_t bytes = 0;           // what counts against bytes_max
  bool on_disk = false;              // whether the next append goes to a file
  std::vector<CursorStats> cursors;  // by name
  std::vector<QueueDamage> damage;   // since the queue was opened
};

// The cursor that Queue's own methods use.
inline constexpr std::string_view kDefaultCursor = "default";

// A consumer, or a group of them: each item is handed out once, and again if it is not
// acknowledged. Thread-safe. Methods return kClosed after the queue is closed, kNotFound after the
// cursor is removed, and kForked in a forked child.
class QueueCursor {
 public:
  QueueCursor() = default;
  virtual ~QueueCursor() = default;
  QueueCursor(const QueueCursor&) = delete;
  QueueCursor& operator=(const QueueCursor&) = delete;

  virtual const std::string& name() const = 0;
  // The same for every handle of this cursor, and for none of another one or after reopening.
  virtual std::uint64_t id() const = 0;
  // Items in order; those first that came back by Nack. Nothing if there is none after `timeout`;
  // absent: waits for ever.
  Result<Delivery> Pop(const PopLimits& limits, std::optional<std::chrono::microseconds> timeout,
                       const InterruptCheck& interrupted = nullptr);
  // The same into `delivery`, whose former content is given up; its memory is used again.
  virtual Status PopInto(Delivery* delivery, const PopLimits& limits,
                         std::optional<std::chrono::microseconds> timeout,
                         const InterruptCheck& interrupted = nullptr) = 0;
  // They are done, whether they are in flight or came back meanwhile. In any order; may be
  // repeated.
  virtual Status Ack(std::span<const SequenceRange> ranges) = 0;
  // They are to be popped again, before newer ones. What is not in flight is left as it is.
  virtual Status Nack(std::span<const SequenceRange> ranges) = 0;
  // A copy of what Pop would give first.
  virtual Result<std::optional<std::string>> Peek() = 0;
  virtual Result<CursorStats> GetStats() = 0;
};

// Thread-safe. Methods return kClosed after Close and kForked in a forked child. Destroying it
// closes it; in a forked child it is left alone instead.
class Queue {
 public:
  // Opens the queue in directory `path`, or makes it; `path` is empty for kMemory.
  // kInvalidArgument, kCorruption (a directory that is no queue), kLocked, kStorage.
  static Result<std::unique_ptr<Queue>> Open(const std::string& path, const QueueOptions& options);
  Queue() = default;
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // All items or none. kInvalidArgument for an item that is too long, kQuota if there is no room,
  // kStorage: nothing was appended.
  virtual Result<QueueReceipt> Append(std::span<const std::string_view> items,
                                      std::optional<Durability> durability = std::nullopt,
                                      const InterruptCheck& interrupted = nullptr) = 0;
  // The cursor of that name; a new one begins with the oldest item that is stored, or behind the
  // newest. A name has 1 to 64 letters, digits, "_", "-" and ".", and does not begin with ".".
  virtual Result<std::shared_ptr<QueueCursor>> Cursor(const std::string& name,
                                                      bool from_newest = false) = 0;
  // kNotFound if there is none, kInvalidArgument for the default one.
  virtual Status RemoveCursor(const std::string& name) = 0;
  // Everything appended and acknowledged is safe from loss of power afterwards (in memory: no-op),
  // and what is acknowledged takes no space any more, as far as segments are.
  virtual Status Flush() = 0;
  // Drops everything, also what is in flight. Numbers go on.
  virtual Status Purge() = 0;
  virtual Result<QueueStats> GetStats() = 0;
  // Waits for calls in flight; those that wait for items or room return kClosed.
  virtual Status Close() = 0;
  virtual bool closed() const = 0;
  virtual const std::string& path() const = 0;
};

}  // namespace topicdb
