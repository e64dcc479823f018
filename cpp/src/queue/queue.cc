// The handles that users get of a queue and its cursors, and the calls of QueueImpl that do not
// append.
#include "topicdb/queue.h"

#include <algorithm>

#include "queue/queue_impl.h"

namespace topicdb {

namespace {
constexpr std::chrono::milliseconds kInterruptInterval{50};
constexpr std::uint64_t kSegmentBytesMin = 256;  // the header and the footer have 64 each
constexpr std::uint64_t kItemBytesMax = 0xffffffff - (std::uint64_t{2} << 20);

// A forked child must not destroy the queue: its threads are not there, and its locks may be in any
// state. So this keeps a reference to it forever.
void LeaveIfForked(const std::shared_ptr<QueueImpl>& queue) {
  if (queue->forked()) new std::shared_ptr<QueueImpl>(queue);
}

// A handle of a cursor. It keeps the queue and the cursor's state alive.
class CursorHandle : public QueueCursor {
 public:
  CursorHandle(std::shared_ptr<QueueImpl> queue, std::shared_ptr<Consumer> consumer)
      : queue_(std::move(queue)), consumer_(std::move(consumer)) {}
  ~CursorHandle() override { LeaveIfForked(queue_); }

  const std::string& name() const override { return consumer_->name(); }
  std::uint64_t id() const override { return consumer_->id(); }
  Status PopInto(Delivery* delivery, const PopLimits& limits,
                 std::optional<std::chrono::microseconds> timeout,
                 const InterruptCheck& interrupted) override {
    return queue_->Pop(*consumer_, limits, timeout, interrupted, delivery);
  }
  Status Ack(std::span<const SequenceRange> ranges) override {
    return queue_->Ack(*consumer_, ranges);
  }
  Status Nack(std::span<const SequenceRange> ranges) override {
    return queue_->Nack(*consumer_, ranges);
  }
  Result<std::optional<std::string>> Peek() override { return queue_->Peek(*consumer_); }
  Result<CursorStats> GetStats() override { return queue_->GetCursorStats(*consumer_); }

 private:
  const std::shared_ptr<QueueImpl> queue_;
  const std::shared_ptr<Consumer> consumer_;
};

// The handle of a queue. It refuses calls in a forked child, and passes on all others.
class QueueHandle : public Queue {
 public:
  explicit QueueHandle(std::shared_ptr<QueueImpl> queue) : queue_(std::move(queue)) {}
  ~QueueHandle() override {
    if (!queue_->forked()) queue_->Close().IgnoreError();
    LeaveIfForked(queue_);
  }

  Result<QueueReceipt> Append(std::span<const std::string_view> items,
                              std::optional<Durability> durability,
                              const InterruptCheck& interrupted,
                              std::span<const std::uint64_t> weights) override {
    if (queue_->forked()) return ForkedFault();
    return queue_->Append({items, weights}, durability, interrupted);
  }
  Result<std::shared_ptr<QueueCursor>> Cursor(const std::string& name, bool from_newest) override {
    if (queue_->forked()) return ForkedFault();
    TOPICDB_ASSIGN_OR_RETURN(auto consumer, queue_->GetConsumer(name, from_newest));
    return std::shared_ptr<QueueCursor>(
        std::make_shared<CursorHandle>(queue_, std::move(consumer)));
  }
  Status RemoveCursor(const std::string& name) override {
    return queue_->forked() ? ForkedFault() : queue_->RemoveConsumer(name);
  }
  Status Flush() override { return queue_->forked() ? ForkedFault() : queue_->Flush(); }
  Status Purge() override { return queue_->forked() ? ForkedFault() : queue_->Purge(); }
  Result<QueueStats> GetStats() override {
    if (queue_->forked()) return ForkedFault();
    return queue_->GetStats();
  }
  Status Close() override { return queue_->Close(); }
  bool closed() const override { return queue_->closed(); }
  const std::string& path() const override { return queue_->path(); }

 private:
  Status ForkedFault() const {
    return Forked("queue " + queue_->path() + " was opened by the parent process; open it here");
  }
  const std::shared_ptr<QueueImpl> queue_;
};

Status CheckOptions(const std::string& path, const QueueOptions& options) {
  if ((options.mode == QueueMode::kMemory) != path.empty()) {
    return InvalidArgument(path.empty() ? "a queue that is not mode=\"memory\" needs a path"
                                        : "mode=\"memory\" has no files: leave the path out");
  }
  if (options.format == QueueFormat::kReplayq && options.mode != QueueMode::kDisk) {
    return InvalidArgument("format=\"replayq\" takes mode=\"disk\" only");
  }
  if (options.format == QueueFormat::kReplayq && options.weighed) return ReplayqWeighs();
  if (options.segment_bytes < kSegmentBytesMin) {
    return InvalidArgument("segment_bytes must be at least " + std::to_string(kSegmentBytesMin) +
                           ", got " + std::to_string(options.segment_bytes));
  }
  if (options.bytes_max == 0) return InvalidArgument("max_total_bytes must be at least 1");
  if (options.item_bytes_max > kItemBytesMax) {
    return InvalidArgument("item_bytes_max must be at most " + std::to_string(kItemBytesMax));
  }
  if (options.flush_interval.count() <= 0) {
    return InvalidArgument("flush_interval must be more than 0");
  }
  return Status::Ok();
}
}  // namespace

Result<Delivery> QueueCursor::Pop(const PopLimits& limits,
                                  std::optional<std::chrono::microseconds> timeout,
                                  const InterruptCheck& interrupted) {
  Delivery delivery;
  TOPICDB_RETURN_IF_ERROR(PopInto(&delivery, limits, timeout, interrupted));
  return delivery;
}

const char* NameOf(DropReason reason) {
  switch (reason) {
    case DropReason::kOverflow:
      return "overflow";
    case DropReason::kMemory:
      return "memory";
    case DropReason::kPurge:
      return "purge";
    case DropReason::kDamage:
      return "damage";
  }
  return "";
}

Result<std::unique_ptr<Queue>> Queue::Open(const std::string& path, const QueueOptions& options) {
  TOPICDB_RETURN_IF_ERROR(CheckOptions(path, options));
  auto queue = std::make_shared<QueueImpl>(path, options);
  if (Status status = queue->Open(); !status.ok()) {
    queue->Abandon();
    return status;
  }
  return std::unique_ptr<Queue>(std::make_unique<QueueHandle>(std::move(queue)));
}

Status QueueImpl::CheckUsable() const {
  if (forked()) return Forked(Name() + " was opened by the parent process; open it here");
  return closed() ? Closed(Name() + " is closed") : Status::Ok();
}

Status QueueImpl::CheckConsumer(const Consumer& consumer) const {
  TOPICDB_RETURN_IF_ERROR(CheckUsable());
  if (!consumer.removed()) return Status::Ok();
  return NotFound("cursor '" + consumer.name() + "' of " + Name() + " was removed");
}

Result<std::shared_ptr<Consumer>> QueueImpl::GetConsumer(const std::string& name,
                                                         bool from_newest) {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckUsable());
  TOPICDB_RETURN_IF_ERROR(CheckCursorName(name));
  std::shared_ptr<Consumer> consumer;
  ReadReport report;
  {
    const MutexLock lock(append_mutex_);
    const MutexLock consumers(consumers_mutex_);
    if (!has_cursors_ && name != kDefaultCursor) {
      return InvalidArgument(Name() + " is of format=\"replayq\", which has no cursors but " +
                             std::string(kDefaultCursor));
    }
    if (const auto found = consumers_.find(name); found != consumers_.end()) return found->second;
    const std::uint64_t next = from_newest ? log().end_sequence() : log().begin_sequence();
    consumer = std::make_shared<Consumer>(name, next);
    TOPICDB_RETURN_IF_ERROR(consumer->Attach(shared_log(), /*moved=*/true, &report));
    consumers_.emplace(name, consumer);
  }
  Tell(report);
  // Once the cursor is stored, it keeps its items even if the process is killed.
  TOPICDB_RETURN_IF_ERROR(SaveCursors(/*sync=*/true));
  return consumer;
}

Status QueueImpl::RemoveConsumer(const std::string& name) {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckUsable());
  if (name == kDefaultCursor) return InvalidArgument("the default cursor cannot be removed");
  TOPICDB_RETURN_IF_ERROR(CheckInPlace());
  {
    const MutexLock consumers(consumers_mutex_);
    const auto found = consumers_.find(name);
    if (found == consumers_.end()) return NotFound(Name() + " has no cursor '" + name + "'");
    found->second->Remove();
    consumers_.erase(found);
  }
  {
    const MutexLock lock(files_mutex_);
    if (files_ != nullptr && options_.mode != QueueMode::kVolatile) {
      TOPICDB_RETURN_IF_ERROR(files_->RemoveConsumer(name));
    }
  }
  NotifyRoom();
  return FreeAcknowledged();
}

void QueueImpl::StopBefore(Consumer& consumer, const PopLimits& limits, Delivery* delivery) {
  if (limits.stop_before == nullptr) return;
  std::size_t count = 0;
  while (count < delivery->items.size() && !limits.stop_before(delivery->items[count])) ++count;
  if (count == delivery->items.size()) return;
  consumer.PutBack(count, delivery);
  NotifyItems();
}

void QueueImpl::WaitForItems(const Consumer& consumer, Clock::time_point until) {
  item_waiters_.fetch_add(1);
  {
    const MutexLock lock(signal_mutex_);
    if (!closed() && !consumer.HasWaiting()) signal_.WaitUntil(signal_mutex_, until);
  }
  item_waiters_.fetch_sub(1);
}

Status QueueImpl::Pop(Consumer& consumer, const PopLimits& limits,
                      std::optional<std::chrono::microseconds> timeout,
                      const InterruptCheck& interrupted, Delivery* delivery) {
  const CallGate::Call call(gate_);
  if (limits.count == 0 || limits.bytes == 0) {
    return InvalidArgument("count and bytes must be at least 1");
  }
  std::optional<Clock::time_point> deadline;
  while (true) {
    TOPICDB_RETURN_IF_ERROR(CheckConsumer(consumer));
    delivery->clear();
    ReadReport report;
    const Status status = consumer.Pop(limits, delivery, &report);
    Tell(report);
    TOPICDB_RETURN_IF_ERROR(status);
    if (!delivery->empty()) {
      StopBefore(consumer, limits, delivery);
      return Status::Ok();
    }
    if (timeout == std::chrono::microseconds(0)) return Status::Ok();
    const auto now = Clock::now();
    if (timeout.has_value() && !deadline.has_value()) deadline = now + *timeout;
    if (deadline.has_value() && now >= *deadline) return Status::Ok();
    if (interrupted != nullptr && interrupted()) return Interrupted();
    const auto until = now + kInterruptInterval;
    WaitForItems(consumer, deadline.has_value() ? std::min(until, *deadline) : until);
  }
}

Status QueueImpl::Ack(Consumer& consumer, std::span<const SequenceRange> ranges) {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckConsumer(consumer));
  if (!consumer.Ack(ranges)) return Status::Ok();
  NotifyRoom();
  FreeSoon(consumer.low_water());
  return Status::Ok();
}

Status QueueImpl::Nack(Consumer& consumer, std::span<const SequenceRange> ranges) {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckConsumer(consumer));
  if (consumer.Nack(ranges)) NotifyItems();
  return Status::Ok();
}

Result<std::optional<std::string>> QueueImpl::Peek(Consumer& consumer) {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckConsumer(consumer));
  ReadReport report;
  auto item = consumer.Peek(&report);
  Tell(report);
  return item;
}

Result<CursorStats> QueueImpl::GetCursorStats(Consumer& consumer) {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckConsumer(consumer));
  return consumer.stats();
}

Status QueueImpl::Flush() {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckUsable());
  TOPICDB_RETURN_IF_ERROR(CheckPoison());
  ReadReport report;
  Status status;
  if (options_.mode == QueueMode::kOffload) {
    const MutexLock lock(append_mutex_);
    if (memory_ != nullptr && HasItems()) status = MoveToDisk(&report);
  }
  Tell(report);
  TOPICDB_RETURN_IF_ERROR(status);
  TOPICDB_RETURN_IF_ERROR(SyncAppended());
  TOPICDB_RETURN_IF_ERROR(SaveCursors(/*sync=*/true));
  return FreeAcknowledged();
}

Status QueueImpl::Purge() {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckUsable());
  ReadReport report;
  {
    const MutexLock lock(append_mutex_);
    ForEachConsumer([&](Consumer& consumer) { consumer.Purge(&report); });
    UpdateBudget();
  }
  Tell(report);
  TOPICDB_RETURN_IF_ERROR(SaveCursors(/*sync=*/true));
  NotifyRoom();
  return FreeAcknowledged();
}

Result<QueueStats> QueueImpl::GetStats() {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckUsable());
  QueueStats stats;
  {
    const MutexLock lock(append_mutex_);
    stats.next_sequence = log().end_sequence();
    stats.bytes = BytesInUse();
    stats.on_disk = memory_ == nullptr;
    if (disk_ != nullptr) {
      const LogFiles files = disk_->segments().CountFiles();
      stats.segments = files.count;
      stats.disk_bytes = files.bytes;
    }
    ForEachConsumer([&](const Consumer& consumer) { stats.cursors.push_back(consumer.stats()); });
  }
  const MutexLock lock(damage_mutex_);
  stats.damage = damage_;
  return stats;
}

}  // namespace topicdb
