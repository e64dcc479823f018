// The implementation of a buffer queue; see Queue in topicdb/queue.h.
//
// Lock order: free_mutex_, append_mutex_, consumers_mutex_, signal_mutex_, files_mutex_, a
// consumer's mutex, the log's mutex. A thread that holds one of the other mutexes locks nothing
// else. The queue holds none of them while it calls the user's callbacks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file/known_file.h"
#include "base/thread/call_gate.h"
#include "base/thread/fork_guard.h"
#include "base/thread/mutex.h"
#include "base/thread/waiter.h"
#include "queue/consumer.h"
#include "queue/memory_log.h"
#include "queue/queue_files.h"
#include "queue/queue_log.h"
#include "topicdb/queue.h"

namespace topicdb {

// What an append asks of the limits. The numbers are upper bounds.
struct AppendSize {
  std::uint64_t bytes = 0;         // that all its items will count
  std::uint64_t newest_bytes = 0;  // that its last item will count
};

// Returns the error that replayq's format cannot store weights.
Status ReplayqWeighs();

// A buffer queue. It owns the log, the files and the thread of the keeper, which writes out, fsyncs
// and frees what calls have left to it. The handles of the queue and of its cursors share it.
// Thread-safe once it is open.
class QueueImpl {
 public:
  using Clock = std::chrono::steady_clock;

  QueueImpl(std::string path, const QueueOptions& options)
      : path_(std::move(path)), options_(options) {}
  ~QueueImpl();
  QueueImpl(const QueueImpl&) = delete;
  QueueImpl& operator=(const QueueImpl&) = delete;

  // Opens or makes the queue. The caller must call it once, before anything else. If it fails, the
  // caller must call Abandon.
  Status Open();
  // Closes what a failed Open has opened, and changes nothing on disk.
  void Abandon();
  Status Close();
  bool closed() const { return gate_.closed(); }
  bool forked() const { return fork_guard_.Forked(); }
  const std::string& path() const { return path_; }

  // The methods from here on are those of Queue and QueueCursor; see topicdb/queue.h.
  Result<QueueReceipt> Append(const WeighedItems& items, std::optional<Durability> durability,
                              const InterruptCheck& interrupted);
  Result<std::shared_ptr<Consumer>> GetConsumer(const std::string& name, bool from_newest);
  Status RemoveConsumer(const std::string& name);
  Status Flush();
  Status Purge();
  Result<QueueStats> GetStats();

  Status Pop(Consumer& consumer, const PopLimits& limits,
             std::optional<std::chrono::microseconds> timeout, const InterruptCheck& interrupted,
             Delivery* delivery);
  Status Ack(Consumer& consumer, std::span<const SequenceRange> ranges);
  Status Nack(Consumer& consumer, std::span<const SequenceRange> ranges);
  Result<std::optional<std::string>> Peek(Consumer& consumer);
  Result<CursorStats> GetCursorStats(Consumer& consumer);

 private:
  // Puts back the first item for which limits.stop_before returns true, and the items behind it.
  void StopBefore(Consumer& consumer, const PopLimits& limits, Delivery* delivery);

  // Returns the name of the queue for messages.
  std::string Name() const { return path_.empty() ? "the queue in memory" : "queue " + path_; }
  // Return kForked, kClosed, or for CheckConsumer kNotFound, if the call cannot go on.
  Status CheckUsable() const;
  Status CheckConsumer(const Consumer& consumer) const;

  // queue_open.cc
  // Opens the files, the log on disk and the cursors. Chooses the log to append to.
  Status OpenFiles(ReadReport* report) TOPICDB_REQUIRES(append_mutex_);
  // Deletes the segments and cursors of a queue of QueueMode::kVolatile.
  Status DeleteVolatile();
  // Loads the cursors, and gives up the items that the log does not have any more.
  Status OpenConsumers(SegmentLog* segments, ReadReport* report) TOPICDB_REQUIRES(append_mutex_);
  // Brings all that the queue keeps to disk, and notes that it was closed. A queue of kVolatile
  // deletes its files instead.
  Status CloseFiles(ReadReport* report) TOPICDB_REQUIRES(append_mutex_);

  // queue_append.cc
  // Returns kInvalidArgument if an item is too long, or its weight is missing or too large.
  Status CheckItems(const WeighedItems& items) const;
  // Returns the durability of an append, or kInvalidArgument if the queue cannot give the `wanted`
  // one.
  Result<Durability> DurabilityFor(std::optional<Durability> wanted) const;
  // Makes room for the items and appends them. Returns the number of the first. Sets `durability`
  // to the one that was reached, as far as no fsync is needed for it.
  Result<std::uint64_t> AppendLocked(const WeighedItems& items, bool memory_is_high,
                                     const InterruptCheck& interrupted, Durability* durability,
                                     ReadReport* report) TOPICDB_REQUIRES(append_mutex_);
  // Returns how large the append of these items is.
  AppendSize SizeOf(const WeighedItems& items) const TOPICDB_REQUIRES(append_mutex_);
  // Makes room for an append, by the overflow policy. Returns whether all of it fits: if not, the
  // caller must call TrimToLimit once it is done. Returns kQuota if there is no room. A wait for
  // room may also end with kClosed or kInterrupted.
  Result<bool> MakeRoom(const AppendSize& size, const InterruptCheck& interrupted,
                        ReadReport* report) TOPICDB_REQUIRES(append_mutex_);
  // Returns how many bytes one cursor may leave unacknowledged.
  std::uint64_t BytesAllowed() const TOPICDB_REQUIRES(append_mutex_);
  // Returns the bytes that other queues hold of the shared budget.
  std::uint64_t BytesOfOthers() const TOPICDB_REQUIRES(append_mutex_);
  // Returns the most bytes that a cursor has in flight.
  std::uint64_t BytesInFlight() const TOPICDB_REQUIRES(append_mutex_);
  // Returns whether `bytes` more are within the limit.
  bool HasRoom(std::uint64_t bytes) const TOPICDB_REQUIRES(append_mutex_);
  // Returns whether the newest item of an append could stay if everything went that may be dropped.
  // It could if nothing would be left beside it, however large it is.
  bool HasRoomForNewest(std::uint64_t newest_bytes) const TOPICDB_REQUIRES(append_mutex_);
  // Returns a text that says which limit leaves no room for an append, and what takes the room.
  std::string DescribeFull(const AppendSize& size) const TOPICDB_REQUIRES(append_mutex_);
  // Drops the oldest waiting items of each cursor that has no room for `bytes` more.
  Status DropOldest(std::uint64_t bytes, ReadReport* report) TOPICDB_REQUIRES(append_mutex_);
  // Drops the oldest waiting items of each cursor that has more than the limit allows, but never
  // the newest item. Ignores errors: what cannot be dropped now goes with a later append.
  void TrimToLimit(ReadReport* report) TOPICDB_REQUIRES(append_mutex_);
  // Waits until there is room for an append. Returns kQuota after block_timeout, kClosed or
  // kInterrupted.
  Status WaitForRoom(const AppendSize& size, const InterruptCheck& interrupted)
      TOPICDB_REQUIRES(append_mutex_);
  // kOffload, kVolatile: moves the items in memory to disk if `bytes` more do not fit there or must
  // be durable. Goes back to memory once no item is left.
  Status ChooseLog(std::uint64_t bytes, Durability durability, ReadReport* report)
      TOPICDB_REQUIRES(append_mutex_);
  // Move the items that are not acknowledged to the other log, and attach all cursors to it. For
  // MoveToMemory there must be no such item. After an error, the log and the items are where they
  // were.
  Status MoveToDisk(ReadReport* report) TOPICDB_REQUIRES(append_mutex_);
  Status MoveToMemory(ReadReport* report) TOPICDB_REQUIRES(append_mutex_);
  // Appends the items in memory to the log on disk, with their numbers. After an error, a part of
  // them is there, and the next call goes on behind it.
  Status CopyToDisk() TOPICDB_REQUIRES(append_mutex_);
  // Makes all cursors read from `log`.
  Status AttachAll(const std::shared_ptr<QueueLog>& log, ReadReport* report)
      TOPICDB_REQUIRES(append_mutex_);
  // Notes on disk that the next `count` numbers are given away, before they are.
  Status ReserveSequences(std::uint64_t count) TOPICDB_REQUIRES(append_mutex_);
  // Return the log to which items are appended.
  QueueLog& log() const TOPICDB_REQUIRES(append_mutex_);
  std::shared_ptr<QueueLog> shared_log() const TOPICDB_REQUIRES(append_mutex_);
  // Returns what the items count that the slowest cursor has not acknowledged.
  std::uint64_t BytesInUse() const TOPICDB_REQUIRES(append_mutex_);
  // Returns whether a cursor has not acknowledged everything. Items may count nothing for the
  // limits, so this is not the same as BytesInUse() > 0.
  bool HasItems() const TOPICDB_REQUIRES(append_mutex_);
  // Returns a number below which every cursor has acknowledged all items.
  std::uint64_t LowWater() const TOPICDB_EXCLUDES(consumers_mutex_);
  template <typename Visit>
  void ForEachConsumer(Visit visit) const TOPICDB_EXCLUDES(consumers_mutex_) {
    const MutexLock lock(consumers_mutex_);
    for (const auto& [name, consumer] : consumers_) visit(*consumer);
  }

  // queue_sync.cc
  // Returns kStorage if the directory of the queue was removed or replaced since it was opened.
  Status CheckInPlace() const;
  // Fsyncs what was appended before the call, together with other callers, and checks that the
  // directory is in place. A failure poisons the queue: it takes nothing more until it is opened
  // again.
  Status SyncAppended() TOPICDB_EXCLUDES(sync_mutex_);
  // Fsyncs for all callers that wait. Unlocks sync_mutex_ meanwhile. REQUIRES: !syncing_
  void LeadSync(DiskLog& log) TOPICDB_REQUIRES(sync_mutex_);
  // Returns kStorage if an fsync has failed.
  Status CheckPoison() const TOPICDB_EXCLUDES(sync_mutex_);
  // Stores the cursors that have changed since they were stored last. With `sync`, stores all of
  // them, safe from loss of power, and checks that the directory is in place.
  Status SaveCursors(bool sync) TOPICDB_EXCLUDES(files_mutex_);
  // Waits until there is something to pop, or until `until`.
  void WaitForItems(const Consumer& consumer, Clock::time_point until);
  // Frees the items that every cursor has acknowledged, unless that frees nothing (see free_at_).
  Status FreeAcknowledged() TOPICDB_EXCLUDES(free_mutex_, append_mutex_);
  // Called when items were acknowledged or dropped, and a cursor needs none below `low_water` any
  // more. Frees what is in memory, and leaves the files to the keeper.
  void FreeSoon(std::uint64_t low_water) TOPICDB_EXCLUDES(append_mutex_);
  // Returns the log on disk if items are appended to it, else null.
  std::shared_ptr<DiskLog> disk() TOPICDB_EXCLUDES(append_mutex_);
  void StartKeeper();
  void StopKeeper();
  // The loop of the keeper's thread. After each WakeKeeper it waits for flush_interval, writes out
  // what is buffered, saves cursors and frees what is acknowledged. It also fsyncs, if
  // sync_interval asks for it.
  void Keep();
  void WakeKeeper();

  // Wake the calls that wait for items, and the calls that wait for room.
  void NotifyItems() TOPICDB_EXCLUDES(signal_mutex_);
  void NotifyRoom() TOPICDB_EXCLUDES(append_mutex_);
  // Tells the shared budget how many bytes this queue has now.
  void UpdateBudget() TOPICDB_REQUIRES(append_mutex_);
  // Keeps the damage that was found, and tells the user what was dropped.
  void Tell(const ReadReport& report) TOPICDB_EXCLUDES(damage_mutex_);

  const std::string path_;
  const QueueOptions options_;
  const ForkGuard fork_guard_;
  std::optional<KnownFile> place_;  // the locked file; Open sets it; absent: in memory
  CallGate gate_;                   // every public call enters it

  // Held while segments are removed, so that they go in their order. If a process ends when a later
  // one is gone before an earlier one, there is a gap that looks like damage.
  Mutex free_mutex_;

  Mutex append_mutex_;  // held to make the log longer or to replace it
  CondVar room_;        // for the calls that wait for room
  std::atomic<std::uint32_t> room_waiters_{0};
  std::shared_ptr<MemoryLog> memory_ TOPICDB_GUARDED_BY(append_mutex_);  // null: on disk
  std::shared_ptr<DiskLog> disk_ TOPICDB_GUARDED_BY(append_mutex_);      // null: QueueMode::kMemory
  // Smaller numbers are noted on disk as given away.
  std::uint64_t sequence_ceiling_ TOPICDB_GUARDED_BY(append_mutex_) = 0;
  bool reserves_sequences_ TOPICDB_GUARDED_BY(append_mutex_) = false;
  bool has_cursors_ TOPICDB_GUARDED_BY(append_mutex_) = true;
  std::atomic<bool> spilled_{false};  // the log is on disk
  // Nothing can be freed until every cursor has acknowledged all smaller numbers.
  std::atomic<std::uint64_t> free_at_{0};

  mutable Mutex consumers_mutex_;
  std::map<std::string, std::shared_ptr<Consumer>> consumers_ TOPICDB_GUARDED_BY(consumers_mutex_);

  Mutex files_mutex_;
  std::unique_ptr<QueueFiles> files_ TOPICDB_GUARDED_BY(files_mutex_);  // null: in memory

  // For the calls that wait for items.
  Mutex signal_mutex_;
  CondVar signal_;
  std::atomic<std::uint32_t> item_waiters_{0};

  mutable Mutex sync_mutex_;
  std::vector<std::shared_ptr<Waiter>> sync_waiters_ TOPICDB_GUARDED_BY(sync_mutex_);
  CondVar gathered_;
  std::size_t sync_callers_ TOPICDB_GUARDED_BY(sync_mutex_) = 0;
  std::size_t sync_width_ TOPICDB_GUARDED_BY(sync_mutex_) = 0;  // callers of the last fsync
  std::size_t gather_target_ TOPICDB_GUARDED_BY(sync_mutex_) = SIZE_MAX;
  Clock::duration sync_time_ TOPICDB_GUARDED_BY(sync_mutex_){};  // that the last fsync took
  bool syncing_ TOPICDB_GUARDED_BY(sync_mutex_) = false;
  std::uint64_t sync_begun_ TOPICDB_GUARDED_BY(sync_mutex_) = 0;
  std::uint64_t sync_ended_ TOPICDB_GUARDED_BY(sync_mutex_) = 0;
  std::atomic<bool> poisoned_{false};
  std::string poison_ TOPICDB_GUARDED_BY(sync_mutex_);  // what the failed fsync said

  Mutex keeper_mutex_;
  CondVar keeper_wake_;
  std::thread keeper_;
  bool keeper_stop_ TOPICDB_GUARDED_BY(keeper_mutex_) = false;
  std::atomic<bool> keeper_due_{false};

  Mutex damage_mutex_;
  std::vector<QueueDamage> damage_ TOPICDB_GUARDED_BY(damage_mutex_);

  std::uint64_t budget_bytes_ TOPICDB_GUARDED_BY(append_mutex_) = 0;  // counted in options_.budget
};

}  // namespace topicdb
