// One cursor of a queue: how far it has read, and which items are outstanding.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "queue/delivery_state.h"
#include "queue/queue_log.h"
#include "topicdb/queue.h"

namespace topicdb {

// What happened while a log was read. Calls add to it. The queue tells the user about it once it
// holds no lock.
struct ReadReport {
  std::vector<Drop> drops;
  std::vector<LogDamage> damage;
};

// Keeps the state of one cursor, and pops items for it. The queue and the handles of the cursor
// share it. It shares the log with the queue, so that calls of a cursor that was removed still have
// one. Thread-safe. mutex_ is held while frames are read, so one thread at a time reads for a
// cursor.
class Consumer {
 public:
  // Makes a cursor whose first item has the number `next_sequence`.
  Consumer(std::string name, std::uint64_t next_sequence);

  // Makes a cursor from its stored form. Returns kCorruption if `content` is malformed.
  static Result<std::unique_ptr<Consumer>> Decode(std::string_view content);
  // Returns the stored form: what is not acknowledged. After Decode, all of that is popped again.
  std::string Encode() const TOPICDB_EXCLUDES(mutex_);

  // Makes the cursor read from `log` from now on. With `moved`, it is not known where the items are
  // in `log`.
  Status Attach(std::shared_ptr<QueueLog> log, bool moved, ReadReport* report)
      TOPICDB_EXCLUDES(mutex_);
  // Gives up the items with smaller numbers that are not acknowledged, because the log does not
  // have them any more. Reports them as damage of `path`.
  void LoseBefore(std::uint64_t sequence, const std::string& path, ReadReport* report)
      TOPICDB_EXCLUDES(mutex_);

  // Adds waiting items to `delivery`, as many as the limits admit, and counts them as in flight.
  // Adds none if none waits. An error after some items were taken is returned by the next call.
  Status Pop(const PopLimits& limits, Delivery* delivery, ReadReport* report)
      TOPICDB_EXCLUDES(mutex_);
  // Ack and Nack return whether anything changed.
  bool Ack(std::span<const SequenceRange> ranges) TOPICDB_EXCLUDES(mutex_);
  bool Nack(std::span<const SequenceRange> ranges) TOPICDB_EXCLUDES(mutex_);
  // Keeps only the first `count` items of a delivery that was just popped. The others wait again.
  // REQUIRES: it was popped with PopLimits::stop_before
  void PutBack(std::size_t count, Delivery* delivery) TOPICDB_EXCLUDES(mutex_);
  // Returns a copy of the item that Pop would take first, or nothing if none waits.
  Result<std::optional<std::string>> Peek(ReadReport* report) TOPICDB_EXCLUDES(mutex_);
  // Drops the oldest waiting items until they count at least `bytes`, or all of them. With
  // `keeps_newest`, the newest item of the log stays in any case.
  Status DropOldest(std::uint64_t bytes, DropReason reason, bool keeps_newest, ReadReport* report)
      TOPICDB_EXCLUDES(mutex_);
  // Drops all items that there are now, including those in flight.
  void Purge(ReadReport* report) TOPICDB_EXCLUDES(mutex_);

  const std::string& name() const { return name_; }
  std::uint64_t id() const { return id_; }  // unique in this process
  // Return how many bytes of the log are acknowledged, and how many are in flight. Neither waits
  // for a thread that reads. REQUIRES (acknowledged_bytes, in_flight_bytes): nobody attaches
  // another log meanwhile
  std::uint64_t acknowledged_bytes() const {
    return acknowledged_bytes_.load(std::memory_order_acquire);
  }
  std::uint64_t acknowledged_items() const {
    return acknowledged_items_.load(std::memory_order_acquire);
  }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_.load(std::memory_order_acquire); }
  // Returns whether there is an item that Pop would take.
  bool HasWaiting() const TOPICDB_EXCLUDES(mutex_);
  // Returns a number below which every item is acknowledged or dropped.
  std::uint64_t low_water() const { return low_water_.load(std::memory_order_acquire); }
  // Returns the statistics, with the items of the log that were never popped.
  CursorStats stats() const TOPICDB_EXCLUDES(mutex_);
  // Returns what is known without a log: `waiting` counts only the items that came back.
  CursorStats stored_stats() const TOPICDB_EXCLUDES(mutex_);

  // Returns whether something changed since the last call, so that Encode returns something else.
  bool TakeDirty() { return dirty_.exchange(false, std::memory_order_acq_rel); }
  void SetDirty() { dirty_.store(true, std::memory_order_release); }

  // Marks the cursor as removed, so that its handles return kNotFound.
  void Remove() { removed_.store(true, std::memory_order_release); }
  bool removed() const { return removed_.load(std::memory_order_acquire); }

 private:
  // What is left of a limit while items are taken.
  struct Budget {
    std::uint64_t count = UINT64_MAX;
    std::uint64_t bytes = UINT64_MAX;
    bool at_least = false;  // also takes the item that reaches the limit
    bool counted = false;   // counts bytes as the limits of the queue do, with headers
    bool started = false;
    std::uint64_t before = UINT64_MAX;  // takes only items with smaller numbers

    bool spent() const { return count == 0 || bytes == 0; }
    // Returns whether an item of `size` bytes is within the budget, and if so, charges it.
    bool Admit(std::uint64_t size);
  };
  // Items of one frame that are taken together.
  struct Portion {
    std::span<const std::string_view> items;
    std::span<const std::uint64_t> weights;  // as many as items, or none
    Span span;
    const std::shared_ptr<const void>* owner = nullptr;
  };
  using Sink = std::function<void(const Portion&)>;

  // Take the oldest waiting items, as many as the budget admits, put them in `state`, and give them
  // to `sink`. TakeReturned takes items that came back, TakeNew items that were never popped, and
  // Take takes both in this order.
  Status Take(Budget budget, Span::State state, ReadReport* report, const Sink& sink)
      TOPICDB_REQUIRES(mutex_);
  Status TakeReturned(Budget* budget, Span::State state, ReadReport* report, const Sink& sink)
      TOPICDB_REQUIRES(mutex_);
  Status TakeNew(Budget* budget, Span::State state, ReadReport* report, const Sink& sink)
      TOPICDB_REQUIRES(mutex_);
  // Returns items of the reader's block from `begin` on and before `end`, as many as the budget
  // admits.
  Portion Admit(const QueueLogReader& reader, std::size_t begin, std::size_t end,
                Budget* budget) const TOPICDB_REQUIRES(mutex_);
  // Returns what the items from `begin` on and before `end` count for the limits. The header of the
  // frame counts with the first item of the block, unless the items have weights.
  std::uint64_t BytesOf(const Block& block, std::size_t begin, std::size_t end) const
      TOPICDB_REQUIRES(mutex_);
  // Loads the frame of next_ into reader_, and moves next_ past lost items. Returns kBlock or kEnd.
  Result<ReadEvent> LoadNext(ReadReport* report) TOPICDB_REQUIRES(mutex_);
  // Loads the frame of the first span that came back into returned_reader_, and gives up lost items
  // on the way. Returns kBlock, or kEnd if no item came back.
  Result<ReadEvent> LoadReturned(ReadReport* report) TOPICDB_REQUIRES(mutex_);
  // Counts items as dropped, and reports the drop.
  void Note(DropReason reason, const SequenceRange& items, std::uint64_t bytes, ReadReport* report)
      TOPICDB_REQUIRES(mutex_);
  // Publishes the numbers that can be read without mutex_, and marks the state as changed.
  void Changed() TOPICDB_REQUIRES(mutex_);
  // Returns the statistics without the items that were never popped.
  CursorStats Stats() const TOPICDB_REQUIRES(mutex_);

  const std::string name_;
  const std::uint64_t id_;
  std::atomic<std::uint64_t> low_water_;
  std::atomic<std::uint64_t> acknowledged_bytes_{0};
  std::atomic<std::uint64_t> acknowledged_items_{0};
  std::atomic<std::uint64_t> in_flight_bytes_{0};
  std::atomic<bool> dirty_{true};
  std::atomic<bool> removed_{false};

  mutable Mutex mutex_;
  std::shared_ptr<QueueLog> log_ TOPICDB_GUARDED_BY(mutex_);
  std::unique_ptr<QueueLogReader> reader_ TOPICDB_GUARDED_BY(mutex_);
  // Reads the items that came back.
  std::unique_ptr<QueueLogReader> returned_reader_ TOPICDB_GUARDED_BY(mutex_);
  LogPosition next_ TOPICDB_GUARDED_BY(mutex_);     // of the first item that was never popped
  LogCount next_count_ TOPICDB_GUARDED_BY(mutex_);  // of what is before next_
  // The first number of the frame in which next_ was counted; 0: next_count_ is not known.
  std::uint64_t counted_frame_ TOPICDB_GUARDED_BY(mutex_) = 0;
  DeliveryState state_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t dropped_items_[kDropReasons + 1] TOPICDB_GUARDED_BY(mutex_) = {};
  std::uint64_t dropped_bytes_[kDropReasons + 1] TOPICDB_GUARDED_BY(mutex_) = {};
};

}  // namespace topicdb
