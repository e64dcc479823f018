// Appending to a queue: limits, and where the items go.
#include <algorithm>

#include "queue/queue_impl.h"

namespace topicdb {

namespace {
constexpr std::chrono::milliseconds kInterruptInterval{50};
// ReserveSequences notes this many numbers at once as given away. After a crash, about as many may
// be skipped.
constexpr std::uint64_t kSequencesReserved = std::uint64_t{1} << 20;
// The most bytes that a frame has besides its items: its header and padding.
constexpr std::uint64_t kFrameBytesMax = 40;
constexpr std::uint64_t kFrameBodyBytes = std::uint64_t{1} << 20;
// A queue keeps at most about this many sealed files open for an fsync; see files_to_sync. Segments
// of the default size do not come that far, since the default limit is less than so many of them.
constexpr std::size_t kFilesToSyncMax = 256;

// Returns whether an item of `bytes` may be kept beside what is `held` of a limit already. An item
// that is alone may have any size.
bool FitsBeside(std::uint64_t held, std::uint64_t bytes, std::uint64_t limit) {
  return held == 0 || held + bytes <= limit;
}
}  // namespace

QueueLog& QueueImpl::log() const {
  return memory_ != nullptr ? static_cast<QueueLog&>(*memory_) : *disk_;
}

std::shared_ptr<QueueLog> QueueImpl::shared_log() const {
  if (memory_ != nullptr) return memory_;
  return disk_;
}

Status ReplayqWeighs() {
  return InvalidArgument(
      "format=\"replayq\" cannot store what a sizer says: its items count their bytes");
}

Status QueueImpl::CheckItems(const WeighedItems& appended) const {
  const std::span<const std::string_view> items = appended.items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].size() <= options_.item_bytes_max) continue;
    return InvalidArgument("item " + std::to_string(i) + " has " + std::to_string(items[i].size()) +
                           " bytes, more than item_bytes_max (" +
                           std::to_string(options_.item_bytes_max) + "); nothing was appended");
  }
  if (appended.weights.size() != (options_.weighed ? items.size() : 0)) {
    return InvalidArgument(std::to_string(appended.weights.size()) + " weights for " +
                           std::to_string(items.size()) + " items of a queue with" +
                           (options_.weighed ? "" : "out") + " weights; nothing was appended");
  }
  for (std::size_t i = 0; i < appended.weights.size(); ++i) {
    if (appended.weights[i] <= kItemWeightMax) continue;
    return InvalidArgument("item " + std::to_string(i) + " counts " +
                           std::to_string(appended.weights[i]) + ", at most " +
                           std::to_string(kItemWeightMax) + " is possible; nothing was appended");
  }
  return Status::Ok();
}

Result<Durability> QueueImpl::DurabilityFor(std::optional<Durability> wanted) const {
  const bool keeps = options_.mode == QueueMode::kDisk || options_.mode == QueueMode::kOffload;
  if (!keeps && wanted.value_or(Durability::kNone) != Durability::kNone) {
    return InvalidArgument("durability: " + Name() +
                           " is kept nowhere; open it with mode=\"disk\" or \"offload\"");
  }
  return wanted.value_or(options_.mode == QueueMode::kDisk ? options_.durability
                                                           : Durability::kNone);
}

std::uint64_t QueueImpl::BytesInUse() const {
  const std::uint64_t end = log().end_count().bytes;
  std::uint64_t most = 0;
  ForEachConsumer([&](const Consumer& consumer) {
    most = std::max(most, end - consumer.acknowledged_bytes());
  });
  return most;
}

bool QueueImpl::HasItems() const {
  const std::uint64_t end = log().end_count().items;
  bool found = false;
  ForEachConsumer(
      [&](const Consumer& consumer) { found = found || consumer.acknowledged_items() < end; });
  return found;
}

std::uint64_t QueueImpl::LowWater() const {
  std::uint64_t least = UINT64_MAX;
  ForEachConsumer([&](const Consumer& consumer) { least = std::min(least, consumer.low_water()); });
  return least;
}

std::uint64_t QueueImpl::BytesOfOthers() const {
  if (options_.budget == nullptr) return 0;
  const std::uint64_t all = options_.budget->bytes();
  return all - std::min(all, budget_bytes_);
}

std::uint64_t QueueImpl::BytesAllowed() const {
  if (options_.budget == nullptr) return options_.bytes_max;
  const std::uint64_t shared = options_.budget->bytes_max();
  return std::min(options_.bytes_max, shared - std::min(shared, BytesOfOthers()));
}

std::uint64_t QueueImpl::BytesInFlight() const {
  std::uint64_t most = 0;
  ForEachConsumer(
      [&](const Consumer& consumer) { most = std::max(most, consumer.in_flight_bytes()); });
  return most;
}

bool QueueImpl::HasRoom(std::uint64_t bytes) const {
  const std::uint64_t allowed = BytesAllowed();
  const std::uint64_t end = log().end_count().bytes;
  bool room = true;
  ForEachConsumer([&](const Consumer& consumer) {
    room = room && end - consumer.acknowledged_bytes() + bytes <= allowed;
  });
  return room;
}

bool QueueImpl::HasRoomForNewest(std::uint64_t newest_bytes) const {
  const std::uint64_t in_flight = BytesInFlight();
  if (!FitsBeside(in_flight, newest_bytes, options_.bytes_max)) return false;
  return options_.budget == nullptr ||
         FitsBeside(BytesOfOthers() + in_flight, newest_bytes, options_.budget->bytes_max());
}

Status QueueImpl::DropOldest(std::uint64_t bytes, ReadReport* report) {
  const std::uint64_t allowed = BytesAllowed();
  const std::uint64_t end = log().end_count().bytes;
  Status status;
  ForEachConsumer([&](Consumer& consumer) {
    const std::uint64_t used = end - consumer.acknowledged_bytes() + bytes;
    if (used <= allowed || !status.ok()) return;
    status =
        consumer.DropOldest(used - allowed, DropReason::kOverflow, /*keeps_newest=*/false, report);
  });
  return status;
}

void QueueImpl::TrimToLimit(ReadReport* report) {
  const std::uint64_t allowed = BytesAllowed();
  const std::uint64_t end = log().end_count().bytes;
  ForEachConsumer([&](Consumer& consumer) {
    const std::uint64_t used = end - consumer.acknowledged_bytes();
    if (used <= allowed) return;
    consumer.DropOldest(used - allowed, DropReason::kOverflow, /*keeps_newest=*/true, report)
        .IgnoreError();
  });
}

std::string QueueImpl::DescribeFull(const AppendSize& size) const {
  // kDropOldest drops all but the newest item of an append, if need be.
  const bool drops = options_.overflow == OverflowPolicy::kDropOldest;
  const std::uint64_t bytes = drops ? size.newest_bytes : size.bytes;
  const std::uint64_t kept = drops ? BytesInFlight() : BytesInUse();
  const std::string append = (drops ? "the newest item of the append has " : "the append has ") +
                             std::to_string(bytes) + " bytes";
  const std::string holds =
      std::to_string(kept) + (drops ? " are in flight, which are never dropped: acknowledge what "
                                      "was popped"
                                    : " are not acknowledged");
  const std::string own =
      Name() + " may hold " + std::to_string(options_.bytes_max) + " bytes (max_total_bytes), ";
  const std::string too_much = "; append less at once, or raise the limit";
  if (!drops && bytes > options_.bytes_max) return own + append + too_much;
  const bool own_is_full =
      drops ? !FitsBeside(kept, bytes, options_.bytes_max) : kept + bytes > options_.bytes_max;
  if (options_.budget == nullptr || own_is_full) return own + "of which " + holds + "; " + append;
  const QueueBudget& budget = *options_.budget;
  const std::string shared =
      "the QueueBudget of " + Name() + " is of " + std::to_string(budget.bytes_max()) + " bytes, ";
  if (!drops && bytes > budget.bytes_max()) return shared + append + too_much;
  const std::string rest =
      drops && kept == 0 ? " (they are not dropped for this one)" : "; of this one's, " + holds;
  return shared + "of which other queues hold " + std::to_string(BytesOfOthers()) + rest + "; " +
         append;
}

Status QueueImpl::WaitForRoom(const AppendSize& size, const InterruptCheck& interrupted) {
  const auto begun = Clock::now();
  room_waiters_.fetch_add(1);
  Status status;
  while (status.ok() && !HasRoom(size.bytes)) {
    const auto now = Clock::now();
    if (options_.block_timeout.has_value() && now - begun >= *options_.block_timeout) {
      status = QuotaFault(DescribeFull(size) + "; nobody made room in time; nothing was appended");
      break;
    }
    auto until = now + kInterruptInterval;
    if (options_.block_timeout.has_value())
      until = std::min(until, begun + *options_.block_timeout);
    room_.WaitUntil(append_mutex_, until);
    if (closed()) status = Closed(Name() + " is closed");
    if (status.ok() && interrupted != nullptr && interrupted()) status = Interrupted();
    UpdateBudget();
  }
  room_waiters_.fetch_sub(1);
  return status;
}

Result<bool> QueueImpl::MakeRoom(const AppendSize& size, const InterruptCheck& interrupted,
                                 ReadReport* report) {
  if (HasRoom(size.bytes)) return true;
  const bool fits = size.bytes <= options_.bytes_max &&
                    (options_.budget == nullptr || size.bytes <= options_.budget->bytes_max());
  if (fits && options_.overflow == OverflowPolicy::kBlock) {
    TOPICDB_RETURN_IF_ERROR(WaitForRoom(size, interrupted));
    return true;
  }
  const bool drops = options_.overflow == OverflowPolicy::kDropOldest;
  if (!drops || !HasRoomForNewest(size.newest_bytes)) {
    return QuotaFault(DescribeFull(size) + "; nothing was appended");
  }
  TOPICDB_RETURN_IF_ERROR(DropOldest(size.bytes, report));
  return HasRoom(size.bytes);
}

Status QueueImpl::ReserveSequences(std::uint64_t count) {
  if (!reserves_sequences_) return Status::Ok();
  const std::uint64_t next = log().end_sequence();
  if (next + count <= sequence_ceiling_) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(CheckInPlace());
  const MutexLock lock(files_mutex_);
  QueueRecord record = files_->record();
  record.closed_end.reset();
  record.sequence_ceiling = next + count + kSequencesReserved;
  TOPICDB_RETURN_IF_ERROR(files_->WriteRecord(record));
  sequence_ceiling_ = record.sequence_ceiling;
  return Status::Ok();
}

Status QueueImpl::CopyToDisk() {
  // An attempt that failed has left the first of these items there.
  auto batch = memory_->Find(std::max(LowWater(), disk_->end_sequence()));
  for (; batch != nullptr; batch = memory_->Find(batch->block.end_sequence())) {
    TOPICDB_RETURN_IF_ERROR(disk_->segments().SkipTo(batch->block.first_sequence));
    const WeighedItems items{batch->block.items, batch->block.weights};
    TOPICDB_RETURN_IF_ERROR(disk_->Append(items, /*through=*/true).status());
  }
  return disk_->segments().SkipTo(memory_->end_sequence());
}

Status QueueImpl::MoveToDisk(ReadReport* report) {
  Status status = CopyToDisk();
  if (status.ok()) status = AttachAll(disk_, report);
  if (!status.ok()) {
    AttachAll(memory_, report).IgnoreError();  // reading memory does not fail
    return status;
  }
  memory_.reset();
  spilled_ = true;
  return Status::Ok();
}

Status QueueImpl::MoveToMemory(ReadReport* report) {
  auto memory = std::make_shared<MemoryLog>(disk_->end_sequence());
  TOPICDB_RETURN_IF_ERROR(disk_->segments().Clear());
  memory_ = std::move(memory);
  spilled_ = false;
  return AttachAll(memory_, report);
}

Status QueueImpl::AttachAll(const std::shared_ptr<QueueLog>& log, ReadReport* report) {
  Status status;
  ForEachConsumer([&](Consumer& consumer) {
    if (status.ok()) status = consumer.Attach(log, /*moved=*/true, report);
  });
  return status;
}

Status QueueImpl::ChooseLog(std::uint64_t bytes, Durability durability, ReadReport* report) {
  if (options_.mode != QueueMode::kOffload && options_.mode != QueueMode::kVolatile) {
    return Status::Ok();
  }
  const bool fits =
      durability == Durability::kNone && BytesInUse() + bytes <= options_.segment_bytes;
  if (memory_ != nullptr) return fits ? Status::Ok() : MoveToDisk(report);
  if (!fits || HasItems()) return Status::Ok();
  // As Close does it: the segments go, so no stored cursor may ask for their items.
  TOPICDB_RETURN_IF_ERROR(SaveCursors(/*sync=*/true));
  return MoveToMemory(report);
}

AppendSize QueueImpl::SizeOf(const WeighedItems& items) const {
  if (options_.weighed) return {items.Weight(), items.weights.back()};
  AppendSize size;
  for (const std::string_view item : items.items) size.bytes += log().ItemBytes(item);
  size.bytes += kFrameBytesMax * (1 + size.bytes / kFrameBodyBytes);
  size.newest_bytes = log().ItemBytes(items.items.back()) + kFrameBytesMax;
  return size;
}

Result<std::uint64_t> QueueImpl::AppendLocked(const WeighedItems& items, bool memory_is_high,
                                              const InterruptCheck& interrupted,
                                              Durability* durability, ReadReport* report) {
  const AppendSize size = SizeOf(items);
  TOPICDB_ASSIGN_OR_RETURN(const bool fits, MakeRoom(size, interrupted, report));
  TOPICDB_RETURN_IF_ERROR(ReserveSequences(items.items.size()));
  TOPICDB_RETURN_IF_ERROR(ChooseLog(size.bytes, *durability, report));
  if (memory_ != nullptr) *durability = Durability::kNone;
  TOPICDB_ASSIGN_OR_RETURN(const std::uint64_t first,
                           log().Append(items, *durability >= Durability::kOs));
  free_at_.store(log().free_at(), std::memory_order_release);
  if (!fits) TrimToLimit(report);
  if (memory_is_high) {
    ForEachConsumer([&](Consumer& consumer) {
      // The append is done, so an error is ignored: what cannot be dropped now stays.
      consumer.DropOldest(size.bytes, DropReason::kMemory, /*keeps_newest=*/true, report)
          .IgnoreError();
    });
  }
  return first;
}

Result<QueueReceipt> QueueImpl::Append(const WeighedItems& items, std::optional<Durability> wanted,
                                       const InterruptCheck& interrupted) {
  const CallGate::Call call(gate_);
  TOPICDB_RETURN_IF_ERROR(CheckUsable());
  TOPICDB_RETURN_IF_ERROR(CheckPoison());
  TOPICDB_RETURN_IF_ERROR(CheckItems(items));
  TOPICDB_ASSIGN_OR_RETURN(Durability durability, DurabilityFor(wanted));
  if (items.items.empty()) {
    const MutexLock lock(append_mutex_);
    return QueueReceipt{{log().end_sequence(), 0}, durability};
  }
  const bool memory_is_high = options_.memory_is_high != nullptr && options_.memory_is_high();
  ReadReport report;
  bool has_many_files = false;
  const Result<std::uint64_t> first = [&] {
    const MutexLock lock(append_mutex_);
    auto appended = AppendLocked(items, memory_is_high, interrupted, &durability, &report);
    UpdateBudget();
    has_many_files = memory_ == nullptr && disk_->segments().files_to_sync() > kFilesToSyncMax;
    return appended;
  }();
  if (!report.drops.empty()) FreeSoon(LowWater());
  Tell(report);
  if (!first.ok())
    return first.status().code() == Code::kStorage
               ? first.status().WithContext("nothing was appended")
               : first.status();
  NotifyItems();
  if (durability == Durability::kDisk) {
    TOPICDB_RETURN_IF_ERROR(SyncAppended());
  } else if (has_many_files) {
    // Without descriptors nothing could be appended any more. If this fails, the append has still
    // what it asked for; the queue refuses the next one.
    SyncAppended().IgnoreError();
  }
  if (durability == Durability::kNone || options_.sync_interval.has_value()) WakeKeeper();
  return QueueReceipt{{*first, items.items.size()}, durability};
}

void QueueImpl::UpdateBudget() {
  if (options_.budget == nullptr) return;
  const std::uint64_t used = BytesInUse();
  options_.budget->bytes_.fetch_add(used - budget_bytes_);  // modulo 2^64
  budget_bytes_ = used;
}

}  // namespace topicdb
