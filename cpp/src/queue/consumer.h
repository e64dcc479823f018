// One cursor of a queue: how far it has read, and what is outstanding.
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

// What happened while a log was read, to be told to others once no lock is held.
struct ReadReport {
  std::vector<Drop> drops;
  std::vector<LogDamage> damage;
};

// Thread-safe. mutex_ is held while frames are read, by one consumer of the cursor at a time.
class Consumer {
 public:
  Consumer(std::string name, std::uint64_t next_sequence);

  // What is stored of a cursor. kCorruption if it is malformed.
  static Result<std::unique_ptr<Consumer>> Decode(std::string_view content);
  // What is not acknowledged; all of that is popped again after Decode.
  std::string Encode() const TOPICDB_EXCLUDES(mutex_);

  // Reads from `log` from now on. With `moved`, where items are in it is not known.
  Status Attach(QueueLog* log, bool moved, ReadReport* report) TOPICDB_EXCLUDES(mutex_);
  // Items before this number are not in the log any more, though nobody has acknowledged them.
  void LoseBefore(std::uint64_t sequence, const std::string& path, ReadReport* report)
      TOPICDB_EXCLUDES(mutex_);

  Status Pop(const PopLimits& limits, Delivery* delivery, ReadReport* report)
      TOPICDB_EXCLUDES(mutex_);
  bool Ack(std::span<const SequenceRange> ranges) TOPICDB_EXCLUDES(mutex_);
  bool Nack(std::span<const SequenceRange> ranges) TOPICDB_EXCLUDES(mutex_);
  // Leaves only the first `count` items of a delivery taken; the others wait again.
  void PutBack(std::size_t count, Delivery* delivery) TOPICDB_EXCLUDES(mutex_);
  Result<std::optional<std::string>> Peek(ReadReport* report) TOPICDB_EXCLUDES(mutex_);
  // Drops the oldest items that wait until they are `bytes` stored, or all.
  Status DropOldest(std::uint64_t bytes, DropReason reason, ReadReport* report)
      TOPICDB_EXCLUDES(mutex_);
  // Drops everything that there is now.
  void Purge(ReadReport* report) TOPICDB_EXCLUDES(mutex_);

  const std::string& name() const { return name_; }
  std::uint64_t id() const { return id_; }  // of no other in this process
  // Of the bytes in its log, those that are acknowledged; and those that are in flight. May be
  // asked for while the log does not change; waits for nobody who reads.
  std::uint64_t acknowledged_bytes() const {
    return acknowledged_bytes_.load(std::memory_order_acquire);
  }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_.load(std::memory_order_acquire); }
  bool HasWaiting() const TOPICDB_EXCLUDES(mutex_);
  // Every smaller number is acknowledged.
  std::uint64_t low_water() const { return low_water_.load(std::memory_order_acquire); }
  CursorStats stats() const TOPICDB_EXCLUDES(mutex_);
  // What is known without a log: `waiting` are the items that came back.
  CursorStats stored_stats() const TOPICDB_EXCLUDES(mutex_);

  // Whether something changed since the last call, and so Encode.
  bool TakeDirty() { return dirty_.exchange(false, std::memory_order_acq_rel); }
  void SetDirty() { dirty_.store(true, std::memory_order_release); }

  // After RemoveCursor.
  void Remove() { removed_.store(true, std::memory_order_release); }
  bool removed() const { return removed_.load(std::memory_order_acquire); }

 private:
  // What remains of a limit.
  struct Budget {
    std::uint64_t count = UINT64_MAX;
    std::uint64_t bytes = UINT64_MAX;
    bool at_least = false;  // takes the item that reaches the limit, too
    bool stored = false;    // counts bytes with headers
    bool started = false;

    bool spent() const { return count == 0 || bytes == 0; }
    // Whether an item of that size is within it, which it is then charged for.
    bool Admit(std::uint64_t size);
  };
  // Items of a frame that are taken.
  struct Portion {
    std::span<const std::string_view> items;
    Span span;
    const std::shared_ptr<const void>* owner = nullptr;
  };
  using Sink = std::function<void(const Portion&)>;

  // Takes the oldest items that wait, as many as the budget admits: they are in `state` then.
  Status Take(Budget budget, Span::State state, ReadReport* report, const Sink& sink)
      TOPICDB_REQUIRES(mutex_);
  Status TakeReturned(Budget* budget, Span::State state, ReadReport* report, const Sink& sink)
      TOPICDB_REQUIRES(mutex_);
  Status TakeNew(Budget* budget, Span::State state, ReadReport* report, const Sink& sink)
      TOPICDB_REQUIRES(mutex_);
  // Of the reader's block, from item `begin` on and before `end`, what the budget admits.
  Portion Admit(const QueueLogReader& reader, std::size_t begin, std::size_t end,
                Budget* budget) const TOPICDB_REQUIRES(mutex_);
  std::uint64_t StoredBytes(const Block& block, std::size_t begin, std::size_t end) const
      TOPICDB_REQUIRES(mutex_);
  // Loads next_, past what is lost. kEnd or kBlock.
  Result<ReadEvent> LoadNext(ReadReport* report) TOPICDB_REQUIRES(mutex_);
  // Loads the first span that came back, past what is lost. kEnd if none does.
  Result<ReadEvent> LoadReturned(ReadReport* report) TOPICDB_REQUIRES(mutex_);
  void Note(DropReason reason, const SequenceRange& items, std::uint64_t bytes, ReadReport* report)
      TOPICDB_REQUIRES(mutex_);
  void Changed() TOPICDB_REQUIRES(mutex_);
  // Without what the log has that was never popped.
  CursorStats Stats() const TOPICDB_REQUIRES(mutex_);

  const std::string name_;
  const std::uint64_t id_;
  std::atomic<std::uint64_t> low_water_;
  std::atomic<std::uint64_t> acknowledged_bytes_{0};
  std::atomic<std::uint64_t> in_flight_bytes_{0};
  std::atomic<bool> dirty_{true};
  std::atomic<bool> removed_{false};

  mutable Mutex mutex_;
  QueueLog* log_ TOPICDB_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<QueueLogReader> reader_ TOPICDB_GUARDED_BY(mutex_);
  std::unique_ptr<QueueLogReader> returned_reader_ TOPICDB_GUARDED_BY(mutex_);  // of what came back
  LogPosition next_ TOPICDB_GUARDED_BY(mutex_);
  LogCount next_count_ TOPICDB_GUARDED_BY(mutex_);  // before next_
  // The frame in which next_ was counted; 0: next_count_ is not known.
  std::uint64_t counted_frame_ TOPICDB_GUARDED_BY(mutex_) = 0;
  DeliveryState state_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t dropped_items_[kDropReasons + 1] TOPICDB_GUARDED_BY(mutex_) = {};
  std::uint64_t dropped_bytes_[kDropReasons + 1] TOPICDB_GUARDED_BY(mutex_) = {};
};

}  // namespace topicdb
