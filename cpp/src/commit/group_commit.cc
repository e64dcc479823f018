#include "commit/group_commit.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace topicdb {

namespace {

// A group has at most this many bytes, since it is one RocksDB batch in memory. A larger commit is
// a group of its own.
constexpr std::size_t kGroupBytesMax = std::size_t{8} << 20;

bool WantsSync(const QueuedCommit& commit) { return commit.durability == Durability::kDisk; }

// Returns whether the commit is written and wants an fsync.
bool NeedsSync(const QueuedCommit& commit) {
  return commit.status.ok() && commit.written && WantsSync(commit);
}

// Returns whether the commit may as well be written after the fsync that is running.
bool CanWait(const QueuedCommit& commit) { return WantsSync(commit) && !commit.is_urgent; }

}  // namespace

GroupCommit::GroupCommit(WriteGroup write_group, SyncLog sync_log, const CommitOptions& options)
    : write_group_(std::move(write_group)), sync_log_(std::move(sync_log)), options_(options) {}

GroupCommit::~GroupCommit() { Close(); }

bool GroupCommit::HasRoom(const QueuedCommit& commit) const {
  if (pending_.empty()) return true;
  return pending_.size() < options_.pending_max &&
         pending_bytes_ + commit.bytes <= options_.pending_bytes_max;
}

void GroupCommit::Enqueue(QueuedCommit* commit) {
  commit->entry.queued = true;
  pending_.push_back(commit);
  pending_bytes_ += commit->bytes;
  if (gathering_ && pending_.size() >= gather_target_) gathered_.NotifyOne();
}

bool GroupCommit::MayLead(const QueuedCommit& commit) const {
  return !leading_ && !(CanWait(commit) && (syncing_ || gathering_));
}

void GroupCommit::Run(QueuedCommit* commit) {
  commit->entry.waiter = Waiter::OfThread();
  Wakes wakes;
  while (!commit->entry.over.load(std::memory_order_acquire)) {
    Next next = Next::kOver;
    {
      const MutexLock lock(mutex_);
      next = Step(commit, &wakes);
    }
    WakeAll(wakes);
    wakes.clear();
    if (next == Next::kOver) return;
    if (next == Next::kWait) commit->entry.waiter->Wait();
  }
}

GroupCommit::Next GroupCommit::Step(QueuedCommit* commit, Wakes* wakes) {
  if (commit->entry.over.load(std::memory_order_relaxed)) return Next::kOver;
  commit->entry.waiter->Arm();
  if (!commit->entry.queued) {
    if (HasRoom(*commit)) {
      Enqueue(commit);
    } else if (leading_) {
      WaitForRoom(commit->entry.waiter);
      return Next::kWait;
    } else {
      Lead(nullptr, wakes);
      return Next::kStep;
    }
  }
  if (!commit->entry.committed) {
    if (!MayLead(*commit)) return Next::kWait;
    if (CanWait(*commit)) Gather(*commit);
    if (!commit->entry.committed && !leading_) {
      Lead(commit, wakes);
    } else {
      WakeNext(commit, wakes);
    }
    return Next::kStep;
  }
  if (syncing_) return Next::kWait;
  Sync(wakes);
  return Next::kStep;
}

void GroupCommit::WakeAll(const Wakes& wakes) {
  for (const auto& waiter : wakes) waiter->Wake();
}

void GroupCommit::WaitForRoom(const std::shared_ptr<Waiter>& waiter) {
  room_waiters_.push_back(waiter);
}

// Callers that were just served come back at once, but a little too late for the next fsync.
// Without Gather, they would share every second fsync, and each fsync between would serve one
// commit.
void GroupCommit::Gather(const QueuedCommit& leader) {
  gather_target_ = std::max(last_width_, previous_width_);
  if (pending_.size() >= gather_target_) return;
  const auto deadline =
      Clock::now() + std::min<Clock::duration>(last_sync_time_ / 2, options_.flush_interval);
  gathering_ = true;
  while (!leader.entry.committed && pending_.size() < gather_target_ && Clock::now() < deadline) {
    gathered_.WaitUntil(mutex_, deadline);
  }
  gathering_ = false;
}

std::vector<QueuedCommit*> GroupCommit::TakeGroup() {
  std::vector<QueuedCommit*> group;
  std::size_t bytes = 0;
  while (!pending_.empty()) {
    QueuedCommit* const next = pending_.front();
    if (!group.empty() && bytes + next->bytes > kGroupBytesMax) break;
    bytes += next->bytes;
    pending_bytes_ -= next->bytes;
    if (next->entry.done) {
      --submitted_;
      if (next->is_urgent) --urgent_;
    }
    group.push_back(next);
    pending_.pop_front();
  }
  return group;
}

void GroupCommit::Lead(const QueuedCommit* leader, Wakes* wakes) {
  assert(!leading_);
  leading_ = true;
  const std::vector<QueuedCommit*> group = TakeGroup();
  wakes->insert(wakes->end(), room_waiters_.begin(), room_waiters_.end());
  room_waiters_.clear();
  if (room_callers_ > 0) room_.NotifyAll();
  mutex_.Unlock();
  write_group_(group);
  mutex_.Lock();
  ++written_groups_;
  leading_ = false;
  // Serve comes last, since the commit may be gone then.
  bool leader_syncs = false;
  for (QueuedCommit* commit : group) {
    if (commit == leader) leader_syncs = NeedsSync(*commit) && sync_fault_.ok();
    Serve(commit, wakes);
  }
  WakeNext(leader_syncs ? leader : nullptr, wakes);
}

void GroupCommit::Serve(QueuedCommit* commit, Wakes* wakes) {
  commit->entry.group = written_groups_;
  commit->entry.committed = true;
  if (NeedsSync(*commit) && !sync_fault_.ok()) commit->status = sync_fault_;
  if (commit->entry.done) {
    written_.emplace_back(commit);
  } else if (NeedsSync(*commit)) {
    sync_waiters_.push_back(commit);
  } else {
    wakes->push_back(commit->entry.waiter);
    commit->entry.over.store(true, std::memory_order_release);
  }
}

void GroupCommit::WakeNext(const QueuedCommit* awake, Wakes* wakes) {
  if (!written_.empty() || submitted_ > 0) flusher_wake_.NotifyOne();
  const bool syncs_itself =
      awake != nullptr && awake->entry.committed && !awake->entry.over && !syncing_;
  if (!syncing_ && !syncs_itself) {
    if (!sync_waiters_.empty()) {
      wakes->push_back(sync_waiters_.front()->entry.waiter);
    } else if (flusher_sync_group_ > 0) {
      flusher_wake_.NotifyOne();
    }
  }
  if (leading_ || pending_.size() == submitted_) return;
  for (QueuedCommit* commit : pending_) {
    const bool waits_for_sync = syncs_itself && CanWait(*commit);  // an fsync is about to begin
    if (commit->entry.done || waits_for_sync || !MayLead(*commit)) continue;
    wakes->push_back(commit->entry.waiter);
    return;
  }
}

void GroupCommit::Sync(Wakes* wakes) {
  assert(!syncing_);
  syncing_ = true;
  const std::uint64_t covered = written_groups_;
  mutex_.Unlock();
  const auto began = Clock::now();
  Status status = sync_log_();
  const auto took = Clock::now() - began;
  mutex_.Lock();
  syncing_ = false;
  last_sync_time_ = took;
  if (status.ok()) {
    synced_groups_ = covered;
  } else {
    sync_fault_ = std::move(status);
  }
  const std::uint64_t over = sync_fault_.ok() ? covered : written_groups_;
  const auto rest =
      std::partition(sync_waiters_.begin(), sync_waiters_.end(),
                     [over](const QueuedCommit* commit) { return commit->entry.group > over; });
  previous_width_ = last_width_;
  last_width_ = static_cast<std::size_t>(sync_waiters_.end() - rest);
  for (auto served = rest; served != sync_waiters_.end(); ++served) {
    if ((*served)->entry.group > synced_groups_) (*served)->status = sync_fault_;
    wakes->push_back((*served)->entry.waiter);
    (*served)->entry.over.store(true, std::memory_order_release);
  }
  sync_waiters_.erase(rest, sync_waiters_.end());
  if (flusher_sync_group_ > 0) flusher_wake_.NotifyOne();
  WakeNext(nullptr, wakes);
}

bool GroupCommit::AwaitRoom(const QueuedCommit& commit, std::optional<Clock::time_point> until) {
  const std::shared_ptr<Waiter>& waiter = Waiter::OfThread();
  while (!HasRoom(commit)) {
    flusher_wake_.NotifyOne();
    if (until.has_value()) {
      if (Clock::now() >= *until) return false;
      ++room_callers_;
      room_.WaitUntil(mutex_, *until);
      --room_callers_;
      continue;
    }
    waiter->Arm();
    WaitForRoom(waiter);
    mutex_.Unlock();
    waiter->Wait();
    mutex_.Lock();
  }
  return true;
}

bool GroupCommit::Submit(std::unique_ptr<QueuedCommit> commit, std::function<void()> done,
                         std::optional<Clock::time_point> room_until) {
  commit->entry.done = std::move(done);
  const MutexLock lock(mutex_);
  if (!flusher_.joinable()) flusher_ = std::thread([this] { FlushSubmitted(); });
  if (!AwaitRoom(*commit, room_until)) return false;
  last_submitted_ = Clock::now();
  if (submitted_++ == 0) {
    first_submitted_ = last_submitted_;
    flusher_wake_.NotifyOne();
  }
  const bool is_urgent = commit->is_urgent;
  if (is_urgent) ++urgent_;
  Enqueue(commit.release());
  if (is_urgent || IsFull()) flusher_wake_.NotifyOne();
  return true;
}

bool GroupCommit::IsFull() const {
  return !room_waiters_.empty() || room_callers_ > 0 || pending_.size() >= options_.pending_max ||
         pending_bytes_ >= std::min(options_.pending_bytes_max, kGroupBytesMax);
}

GroupCommit::Clock::time_point GroupCommit::FlushTime() const {
  if (closing_ || urgent_ > 0 || IsFull()) return Clock::time_point::min();
  return std::min(first_submitted_ + options_.flush_interval,
                  last_submitted_ + options_.idle_flush_interval);
}

void GroupCommit::FlushSubmitted() {
  const MutexLock lock(mutex_);
  while (true) {
    if (!written_.empty()) {
      std::vector<std::unique_ptr<QueuedCommit>> commits;
      commits.swap(written_);
      Finish(std::move(commits));
    } else if (submitted_ == 0 && closing_) {
      return;
    } else if (submitted_ == 0 || leading_) {
      flusher_wake_.Wait(mutex_);
    } else if (Clock::now() < FlushTime()) {
      flusher_wake_.WaitUntil(mutex_, FlushTime());
    } else {
      Wakes wakes;
      Lead(nullptr, &wakes);
      mutex_.Unlock();
      WakeAll(wakes);
      mutex_.Lock();
    }
  }
}

void GroupCommit::Finish(std::vector<std::unique_ptr<QueuedCommit>> commits) {
  std::uint64_t group = 0;  // the last one that must be fsynced
  for (const auto& commit : commits) {
    if (NeedsSync(*commit)) group = std::max(group, commit->entry.group);
  }
  const Status synced = SyncSubmitted(group);
  mutex_.Unlock();
  for (const auto& commit : commits) {
    if (NeedsSync(*commit)) commit->status = synced;
    commit->entry.done();
  }
  mutex_.Lock();
}

Status GroupCommit::SyncSubmitted(std::uint64_t group) {
  while (synced_groups_ < group && sync_fault_.ok()) {
    flusher_sync_group_ = group;
    if (syncing_) {
      flusher_wake_.Wait(mutex_);
      continue;
    }
    Wakes wakes;
    Sync(&wakes);
    mutex_.Unlock();
    WakeAll(wakes);
    mutex_.Lock();
  }
  flusher_sync_group_ = 0;
  return synced_groups_ >= group ? Status::Ok() : sync_fault_;
}

void GroupCommit::Close() {
  std::thread flusher;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    flusher.swap(flusher_);
    flusher_wake_.NotifyAll();
  }
  if (flusher.joinable()) flusher.join();
}

}  // namespace topicdb
