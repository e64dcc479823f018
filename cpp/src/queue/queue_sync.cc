// What a queue does besides its calls: it fsyncs, saves cursors and frees segments.
#include <algorithm>

#include "queue/queue_impl.h"

namespace topicdb {

namespace {
constexpr std::chrono::milliseconds kGatherMax{5};
}  // namespace

std::shared_ptr<DiskLog> QueueImpl::disk() {
  const MutexLock lock(append_mutex_);
  return memory_ == nullptr ? disk_ : nullptr;
}

Status QueueImpl::CheckInPlace() const {
  if (!place_.has_value()) return Status::Ok();
  Status status = place_->CheckInPlace();
  if (status.ok()) return status;
  return StorageFault(Name() + " was removed or replaced while it was open, so nothing that is " +
                      "appended or acknowledged here is kept (" + status.message() + ")");
}

Status QueueImpl::CheckPoison() const {
  if (!poisoned_.load(std::memory_order_acquire)) return Status::Ok();
  const MutexLock lock(sync_mutex_);
  return StorageFault(poison_);
}

Status QueueImpl::SyncAppended() {
  const std::shared_ptr<DiskLog> log = disk();
  if (log == nullptr) return Status::Ok();
  const MutexLock lock(sync_mutex_);
  if (++sync_callers_ >= gather_target_) gathered_.NotifyAll();
  // An fsync that is under way may have begun before the append, so wait for the one after it.
  const std::uint64_t wanted = sync_begun_ + 1;
  while (sync_ended_ < wanted && !poisoned_.load(std::memory_order_acquire)) {
    if (syncing_) {
      const std::shared_ptr<Waiter>& waiter = Waiter::OfThread();
      waiter->Arm();
      sync_waiters_.push_back(waiter);
      sync_mutex_.Unlock();
      waiter->Wait();
      sync_mutex_.Lock();
    } else {
      LeadSync(*log);
    }
  }
  --sync_callers_;
  return sync_ended_ < wanted ? StorageFault(poison_) : Status::Ok();
}

void QueueImpl::LeadSync(DiskLog& log) {
  syncing_ = true;
  // The callers that the last fsync served are likely to come back with their next append. An fsync
  // for all of them costs as much as an fsync for one, so wait for them for a moment.
  gather_target_ = sync_width_;
  const auto patience = Clock::now() + std::min<Clock::duration>(sync_time_, kGatherMax);
  while (sync_callers_ < gather_target_ && Clock::now() < patience) {
    gathered_.WaitUntil(sync_mutex_, patience);
  }
  gather_target_ = SIZE_MAX;
  sync_width_ = sync_callers_;
  const std::uint64_t begun = ++sync_begun_;
  sync_mutex_.Unlock();
  const auto started = Clock::now();
  Status status = log.segments().Sync();
  // This comes after the fsync: what is acknowledged must be on disk, and be found there.
  if (const Status in_place = CheckInPlace(); !in_place.ok()) status = in_place;
  const auto took = Clock::now() - started;
  sync_mutex_.Lock();
  sync_time_ = took;
  syncing_ = false;
  if (status.ok()) {
    sync_ended_ = begun;
  } else {
    poison_ = status.message() + "; what was appended is perhaps not safe, and " + Name() +
              " takes nothing more until it is opened again";
    poisoned_.store(true, std::memory_order_release);
  }
  const auto waiters = std::exchange(sync_waiters_, {});
  sync_mutex_.Unlock();  // the threads that wake up lock it
  for (const auto& waiter : waiters) waiter->Wake();
  sync_mutex_.Lock();
}

Status QueueImpl::SaveCursors(bool sync) {
  std::vector<std::shared_ptr<Consumer>> dirty;
  {
    const MutexLock lock(consumers_mutex_);
    for (const auto& [name, consumer] : consumers_) {
      if (consumer->TakeDirty() || sync) dirty.push_back(consumer);
    }
  }
  Status status = CheckInPlace();  // files may be made or renamed: not in another directory
  const MutexLock lock(files_mutex_);
  if (files_ == nullptr || options_.mode == QueueMode::kVolatile) return Status::Ok();
  for (const auto& consumer : dirty) {
    if (status.ok() && !consumer->removed()) status = files_->WriteConsumer(*consumer, sync);
  }
  if (status.ok() && sync) status = CheckInPlace();
  if (status.ok()) return status;
  for (const auto& consumer : dirty) consumer->SetDirty();
  return status;
}

Status QueueImpl::FreeAcknowledged() {
  const std::uint64_t low_water = LowWater();
  if (low_water < free_at_.load(std::memory_order_acquire)) return Status::Ok();
  {
    const MutexLock lock(append_mutex_);
    if (memory_ != nullptr) {
      const Status status = memory_->FreeBefore(std::min(low_water, LowWater()));
      free_at_.store(memory_->free_at(), std::memory_order_release);
      return status;
    }
  }
  const MutexLock free_lock(free_mutex_);
  // Saves the cursors first. Otherwise, after a loss of power, a stored cursor could ask for items
  // that are gone.
  TOPICDB_RETURN_IF_ERROR(SaveCursors(/*sync=*/true));
  std::vector<std::string> paths;
  {
    const MutexLock lock(append_mutex_);
    if (memory_ != nullptr) return Status::Ok();  // the log has moved meanwhile
    // A cursor may have been made meanwhile.
    paths = disk_->segments().Detach(std::min(low_water, LowWater()));
    free_at_.store(disk_->free_at(), std::memory_order_release);
  }
  return SegmentLog::RemoveSegments(paths);
}

void QueueImpl::FreeSoon(std::uint64_t low_water) {
  // The keeper saves what is acknowledged, and removes files, so that no caller waits for a disk.
  if (options_.mode != QueueMode::kMemory) WakeKeeper();
  const bool may_free = low_water >= free_at_.load(std::memory_order_acquire);
  if (may_free && !spilled_.load(std::memory_order_relaxed)) FreeAcknowledged().IgnoreError();
}

void QueueImpl::StartKeeper() {
  keeper_ = std::thread([this] { Keep(); });
}

void QueueImpl::StopKeeper() {
  {
    const MutexLock lock(keeper_mutex_);
    keeper_stop_ = true;
    keeper_wake_.NotifyAll();
  }
  if (keeper_.joinable()) keeper_.join();
}

void QueueImpl::WakeKeeper() {
  if (keeper_due_.load(std::memory_order_relaxed) || keeper_due_.exchange(true)) return;
  const MutexLock lock(keeper_mutex_);
  keeper_wake_.NotifyAll();
}

void QueueImpl::Keep() {
  auto last_sync = Clock::now();
  const MutexLock lock(keeper_mutex_);
  while (!keeper_stop_) {
    if (!keeper_due_.load()) {
      keeper_wake_.Wait(keeper_mutex_);
      continue;
    }
    const auto due = Clock::now() + options_.flush_interval;
    while (!keeper_stop_ && Clock::now() < due) keeper_wake_.WaitUntil(keeper_mutex_, due);
    if (keeper_stop_) return;  // Close does what is left
    keeper_due_.store(false);
    keeper_mutex_.Unlock();
    // The next round, Flush or Close try again what fails here. Flush and Close return the error.
    if (const auto log = disk(); log != nullptr) {
      log->segments().WriteOut().IgnoreError();
      const bool sync =
          options_.sync_interval.has_value() && Clock::now() - last_sync >= *options_.sync_interval;
      if (sync) {
        SyncAppended().IgnoreError();
        last_sync = Clock::now();
      } else if (options_.sync_interval.has_value()) {
        keeper_due_.store(true);
      }
    }
    SaveCursors(/*sync=*/false).IgnoreError();
    FreeAcknowledged().IgnoreError();
    keeper_mutex_.Lock();
  }
}

void QueueImpl::NotifyItems() {
  if (item_waiters_.load() == 0) return;
  const MutexLock lock(signal_mutex_);
  signal_.NotifyAll();
}

void QueueImpl::NotifyRoom() {
  if (room_waiters_.load() == 0 && options_.budget == nullptr) return;
  const MutexLock lock(append_mutex_);
  UpdateBudget();
  room_.NotifyAll();
}

void QueueImpl::Tell(const ReadReport& report) {
  if (!report.damage.empty()) {
    const MutexLock lock(damage_mutex_);
    for (const LogDamage& found : report.damage) {
      const QueueDamage damage{found.path, found.what, {found.first_sequence, found.items()}};
      const auto same = [&](const QueueDamage& other) {  // another cursor has met it
        return other.path == damage.path && other.items == damage.items;
      };
      if (std::none_of(damage_.begin(), damage_.end(), same)) damage_.push_back(damage);
    }
  }
  if (options_.on_drop == nullptr) return;
  for (const Drop& drop : report.drops) options_.on_drop(drop);
}

}  // namespace topicdb
