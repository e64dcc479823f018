// A buffer queue: producers append items, consumers pop them, and an item that is acknowledged is
// gone. The items are in memory, on disk, or on disk only when there are many of them.
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
  kOffload = 3,   // on disk beyond segment_bytes, and when the queue is closed
  kVolatile = 4,  // as kOffload, but keeps nothing: opening deletes what is there
};

// How the files are encoded. DO NOT CHANGE THESE VALUES: bindings use them.
enum class QueueFormat : std::uint8_t {
  kTopicdb = 1,
  kReplayq = 2,  // as EMQX's replayq reads and writes them: one cursor, acknowledged in order
};

// What happens to an append that would exceed a limit. DO NOT CHANGE THESE VALUES.
enum class OverflowPolicy : std::uint8_t {
  // Takes it, and drops the oldest waiting items, at last those of the append itself. Never drops
  // its newest item, nor items in flight: returns kQuota if these leave no room for the newest.
  kDropOldest = 1,
  kReject = 2,  // returns kQuota
  kBlock = 3,   // waits for room; returns kQuota after block_timeout
};

// Why items were dropped. DO NOT CHANGE THESE VALUES.
enum class DropReason : std::uint8_t {
  kOverflow = 1,  // there was no room
  kMemory = 2,    // the system was short of memory
  kPurge = 3,     // Purge was called
  kDamage = 4,    // they could not be read from disk
};
inline constexpr std::size_t kDropReasons = 4;

// Returns "overflow", "memory", "purge" or "damage".
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
  std::uint64_t bytes = 0;  // that the items counted for the limits of the queue
};

// A limit of bytes that several queues share. The caller and the queues that use it share it.
// Thread-safe.
class QueueBudget {
 public:
  explicit QueueBudget(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}
  std::uint64_t bytes_max() const { return bytes_max_; }
  // Returns the bytes of all queues that use the budget.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  friend class QueueImpl;
  const std::uint64_t bytes_max_;
  std::atomic<std::uint64_t> bytes_{0};
};

// The most that an item may weigh.
inline constexpr std::uint64_t kItemWeightMax = std::uint64_t{1} << 40;

// How a queue works. Open copies it.
//
// Its limits are in bytes. An item counts its stored bytes, with headers, or the weight that it was
// appended with.
struct QueueOptions {
  QueueMode mode = QueueMode::kDisk;
  // Absent: the format of the directory, or TopicDB's own for a new one. kReplayq is for
  // QueueMode::kDisk only.
  std::optional<QueueFormat> format;
  // A segment file is closed at this many bytes, at least 256, and another begun. kOffload: the
  // bytes that are kept in memory. The default is that of EMQX's Kafka producers.
  std::uint64_t segment_bytes = std::uint64_t{10} << 20;
  // The most bytes that one cursor has not acknowledged. Only kDropOldest exceeds it, by one item
  // that alone is larger. The default is replayq's.
  std::uint64_t bytes_max = 2'000'000'000;
  // A longer item is refused with kInvalidArgument. The default is MQTT's longest payload.
  std::uint64_t item_bytes_max = 268'435'455;
  // Whether items are appended with weights. Not for QueueFormat::kReplayq, which cannot store
  // them.
  bool weighed = false;
  OverflowPolicy overflow = OverflowPolicy::kDropOldest;
  std::optional<std::chrono::microseconds> block_timeout;  // absent: forever
  // The durability of appends that name none. Only kDisk uses it: the default of the other modes is
  // kNone.
  Durability durability = Durability::kOs;
  // Items appended with kNone, and acknowledgements, are handed to the operating system after this
  // time. So a kill -9 loses at most that much, and delivers at most that much again.
  std::chrono::microseconds flush_interval{100'000};
  // Items are fsynced after this time. Absent: only for appends that ask for kDisk.
  std::optional<std::chrono::microseconds> sync_interval;
  std::shared_ptr<QueueBudget> budget;
  // While this returns true, an append drops as many bytes of the oldest items as it adds. Appends
  // call it without holding a lock.
  std::function<bool()> memory_is_high;
  // The thread that dropped items calls this, without holding a lock. Must not throw.
  std::function<void(const Drop&)> on_drop;
};

// Returns whether less than a fifth of the system's memory is available, or of the control group's.
// Looks at most once a second. Thread-safe.
bool SystemMemoryIsHigh();

// What an append has done.
struct QueueReceipt {
  SequenceRange items;
  Durability durability = Durability::kNone;  // that the append reached
};

// How much Pop takes at most.
struct PopLimits {
  std::size_t count = 1'000;        // at least 1
  std::uint64_t bytes = 2'000'000;  // of items without headers, or their weights; at least 1
  // True: takes items until they have at least `bytes`. False: ends before the item that would
  // exceed `bytes`, but takes at least one item.
  bool at_least = false;
  // Called for each item in order, without holding a lock. If it returns true, that item and the
  // items after it stay in the queue. Must not throw. May be empty.
  std::function<bool(std::string_view)> stop_before = nullptr;
};

// Items that Pop handed out, to be acknowledged by their ranges. It keeps the bytes of the items
// alive, even after the queue is closed. Not thread-safe: threads may only read it at the same
// time.
struct Delivery {
  std::vector<std::string_view> items;
  std::vector<SequenceRange> ranges;                // the numbers of the items, ascending
  std::vector<std::shared_ptr<const void>> owners;  // keep the bytes of the items alive
  std::vector<std::uint64_t> counted;               // for the limits, by item; see PopInto

  bool empty() const { return items.empty(); }
  void clear() {
    items.clear();
    ranges.clear();
    owners.clear();
    counted.clear();
  }
};

// The state of a cursor at one moment.
struct CursorStats {
  std::string name;
  std::uint64_t waiting = 0;        // items that can be popped
  std::uint64_t in_flight = 0;      // items that were popped and not acknowledged
  std::uint64_t bytes = 0;          // that both count for the limits
  std::uint64_t next_sequence = 0;  // number of the first item that was never popped
  std::uint64_t low_water = 0;      // every item with a smaller number is acknowledged
  std::uint64_t dropped_items[kDropReasons + 1] = {};  // by DropReason, since the queue was opened
  std::uint64_t dropped_bytes[kDropReasons + 1] = {};
};

// Damage that was found. The items that it cost also count as dropped.
struct QueueDamage {
  std::string path;
  std::string what;
  SequenceRange items;
};

// The state of a queue at one moment.
struct QueueStats {
  std::uint64_t next_sequence = 0;   // number of the next item that is appended
  std::uint64_t segments = 0;        // files
  std::uint64_t disk_bytes = 0;      // of segment files
  std::uint64_t bytes = 0;           // the bytes that count against bytes_max
  bool on_disk = false;              // whether the next append goes to a file
  std::vector<CursorStats> cursors;  // by name
  std::vector<QueueDamage> damage;   // since the queue was opened
};

// The cursor that every queue has.
inline constexpr std::string_view kDefaultCursor = "default";

// A named reader of a queue, for one consumer or a group of them. It hands out each item once, and
// again if the item is not acknowledged. Every call of Queue::Cursor gives a handle of its own,
// which its holder may keep longer than the Queue. Thread-safe.
//
// Methods that return a Status or Result return kClosed after the queue is closed, kNotFound after
// the cursor is removed, and kForked in a forked child.
class QueueCursor {
 public:
  QueueCursor() = default;
  virtual ~QueueCursor() = default;
  QueueCursor(const QueueCursor&) = delete;
  QueueCursor& operator=(const QueueCursor&) = delete;

  virtual const std::string& name() const = 0;
  // Returns a number that all handles of this cursor share. No other cursor has it, nor this one
  // after the queue is reopened.
  virtual std::uint64_t id() const = 0;
  // Pops items in order, first those that came back by Nack. Waits for at most `timeout`, or
  // forever if that is absent. Returns an empty delivery if no item came.
  Result<Delivery> Pop(const PopLimits& limits, std::optional<std::chrono::microseconds> timeout,
                       const InterruptCheck& interrupted = nullptr);
  // Like Pop, but replaces the content of `delivery` and uses its memory again. Sets
  // Delivery::counted only if there is a PopLimits::stop_before.
  virtual Status PopInto(Delivery* delivery, const PopLimits& limits,
                         std::optional<std::chrono::microseconds> timeout,
                         const InterruptCheck& interrupted = nullptr) = 0;
  // Acknowledges items, whether they are in flight or came back meanwhile. The order does not
  // matter. May be repeated. The ranges must be those of a Delivery: a part of one may be ignored.
  virtual Status Ack(std::span<const SequenceRange> ranges) = 0;
  // Gives items back, to be popped again before newer ones. Leaves items alone that are not in
  // flight. The ranges must be those of a Delivery, as for Ack.
  virtual Status Nack(std::span<const SequenceRange> ranges) = 0;
  // Returns a copy of the item that Pop would give first; absent if there is none.
  virtual Result<std::optional<std::string>> Peek() = 0;
  // Returns the state of the cursor.
  virtual Result<CursorStats> GetStats() = 0;
};

// A buffer queue that is open. The caller of Open owns it. Destroying it closes it, except in a
// forked child, where the queue is left alone. Thread-safe. Methods that return a Status or Result
// return kClosed after Close, except Close itself, and kForked in a forked child.
class Queue {
 public:
  // Opens the queue in directory `path`, or makes it. `path` is empty for kMemory. Returns
  // kInvalidArgument, kCorruption (the directory is no queue), kSchema (a later version wrote its
  // files), kLocked or kStorage.
  static Result<std::unique_ptr<Queue>> Open(const std::string& path, const QueueOptions& options);
  Queue() = default;
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Appends all items or none. `weights` has one for each item if QueueOptions::weighed, else none.
  // Returns kInvalidArgument if an item or a weight is too large, kQuota if there is no room, or
  // kStorage. After an error, nothing was appended.
  virtual Result<QueueReceipt> Append(std::span<const std::string_view> items,
                                      std::optional<Durability> durability = std::nullopt,
                                      const InterruptCheck& interrupted = nullptr,
                                      std::span<const std::uint64_t> weights = {}) = 0;
  // Returns the cursor with this name, and makes it if there is none. A new cursor begins with the
  // oldest stored item, or after the newest with `from_newest`. A name has 1 to 64 letters, digits,
  // "_", "-" and ".", and does not begin with ".".
  virtual Result<std::shared_ptr<QueueCursor>> Cursor(const std::string& name,
                                                      bool from_newest = false) = 0;
  // Removes a cursor. Returns kNotFound if there is none, and kInvalidArgument for the default
  // cursor.
  virtual Status RemoveCursor(const std::string& name) = 0;
  // Makes everything that was appended and acknowledged safe from loss of power. A queue in memory
  // does nothing here. Frees the space of acknowledged items where whole segments are acknowledged.
  virtual Status Flush() = 0;
  // Drops all items, including those in flight. Their numbers are not used again.
  virtual Status Purge() = 0;
  // Returns the state of the queue and of its cursors, and the damage that was found so far.
  virtual Result<QueueStats> GetStats() = 0;
  // Stores what a later Open needs, and closes the files. Waits for calls in flight. Calls that
  // wait for items or room return kClosed. May be repeated.
  virtual Status Close() = 0;
  virtual bool closed() const = 0;
  // Returns the path that Open was given.
  virtual const std::string& path() const = 0;
};

}  // namespace topicdb
