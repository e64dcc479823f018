#include "commit/commit_queue.h"

#include <algorithm>
#include <cassert>

namespace topicdb {

namespace {
// A group is one RocksDB batch in memory; a larger commit is a group of its own.
constexpr std::size_t kGroupBytesMax = std::size_t{8} << 20;
}  // namespace

CommitQueue::CommitQueue(CommitSink* sink, const CommitOptions& options)
    : sink_(sink), options_(options) {}

CommitQueue::~CommitQueue() { Close(); }

bool CommitQueue::HasRoom(const QueuedCommit& commit) const {
  if (pending_.empty()) return true;
  return pending_.size() < options_.pending_max &&
         pending_bytes_ + commit.bytes <= options_.pending_bytes_max;
}

void CommitQueue::Enqueue(QueuedCommit* commit) {
  pending_.push_back(commit);
  pending_bytes_ += commit->bytes;
}

void CommitQueue::Run(QueuedCommit* commit) {
  {
    const MutexLock lock(mutex_);
    for (bool queued = false; !commit->committed_;) {
      if (!queued && HasRoom(*commit)) {
        Enqueue(commit);
        queued = true;
      }
      if (leading_) {
        changed_.Wait(mutex_);
      } else {
        Lead();
      }
    }
  }
  if (!commit->status.ok() || !commit->written || commit->durability != Durability::kDisk) return;
  commit->status = SyncUpTo(commit->group_);
}

std::vector<QueuedCommit*> CommitQueue::TakeGroup() {
  std::vector<QueuedCommit*> group;
  std::size_t bytes = 0;
  while (!pending_.empty()) {
    QueuedCommit* const next = pending_.front();
    if (!group.empty() && bytes + next->bytes > kGroupBytesMax) break;
    bytes += next->bytes;
    pending_bytes_ -= next->bytes;
    if (next->done_) --submitted_;
    group.push_back(next);
    pending_.pop_front();
  }
  return group;
}

void CommitQueue::Lead() {
  assert(!leading_);
  leading_ = true;
  const std::vector<QueuedCommit*> group = TakeGroup();
  const std::uint64_t number = ++groups_;
  mutex_.Unlock();
  sink_->CommitGroup(group);
  written_groups_.store(number, std::memory_order_release);
  mutex_.Lock();
  for (QueuedCommit* commit : group) {
    commit->group_ = number;
    commit->committed_ = true;
    if (commit->done_) written_.emplace_back(commit);
  }
  leading_ = false;
  changed_.NotifyAll();
  if (!written_.empty()) flusher_wake_.NotifyOne();
}

Status CommitQueue::SyncUpTo(std::uint64_t group) {
  const MutexLock lock(sync_mutex_);
  ++arrivals_;
  arrived_.NotifyOne();
  while (synced_groups_ < group && sync_fault_.ok()) {
    if (syncing_) {
      synced_.Wait(sync_mutex_);
      continue;
    }
    syncing_ = true;
    GatherForSync();
    previous_width_ = last_width_;
    last_width_ = arrivals_;
    arrivals_ = 0;
    const std::uint64_t covered = written_groups_.load(std::memory_order_acquire);
    sync_mutex_.Unlock();
    const auto began = Clock::now();
    Status status = sink_->SyncLog();
    const auto took = Clock::now() - began;
    sync_mutex_.Lock();
    last_sync_time_ = took;
    if (status.ok()) {
      synced_groups_ = covered;
    } else {
      sync_fault_ = std::move(status);
    }
    syncing_ = false;
    synced_.NotifyAll();
  }
  return synced_groups_ >= group ? Status::Ok() : sync_fault_;
}

// Callers that were just served come back at once, but a little too late for the next fsync: they
// would share every second one with each other, and the others would run with one commit each.
void CommitQueue::GatherForSync() {
  const std::size_t expected = std::max(last_width_, previous_width_);
  const auto deadline =
      Clock::now() + std::min<Clock::duration>(last_sync_time_ / 2, options_.flush_interval);
  while (arrivals_ < expected && Clock::now() < deadline) arrived_.WaitUntil(sync_mutex_, deadline);
}

void CommitQueue::Submit(std::unique_ptr<QueuedCommit> commit, std::function<void()> done) {
  commit->done_ = std::move(done);
  const MutexLock lock(mutex_);
  if (!flusher_.joinable()) flusher_ = std::thread([this] { FlushSubmitted(); });
  for (++waiting_for_room_; !HasRoom(*commit);) {
    flusher_wake_.NotifyOne();
    changed_.Wait(mutex_);
  }
  --waiting_for_room_;
  last_submitted_ = Clock::now();
  if (submitted_++ == 0) {
    first_submitted_ = last_submitted_;
    flusher_wake_.NotifyOne();
  }
  Enqueue(commit.release());
  if (pending_.size() >= options_.pending_max ||
      pending_bytes_ >= std::min(options_.pending_bytes_max, kGroupBytesMax)) {
    flusher_wake_.NotifyOne();
  }
}

CommitQueue::Clock::time_point CommitQueue::FlushTime() const {
  const bool full = waiting_for_room_ > 0 || pending_.size() >= options_.pending_max ||
                    pending_bytes_ >= std::min(options_.pending_bytes_max, kGroupBytesMax);
  if (closing_ || full) return Clock::time_point::min();
  return std::min(first_submitted_ + options_.flush_interval,
                  last_submitted_ + options_.idle_flush_interval);
}

void CommitQueue::FlushSubmitted() {
  const MutexLock lock(mutex_);
  while (true) {
    if (!written_.empty()) {
      std::vector<std::unique_ptr<QueuedCommit>> commits;
      commits.swap(written_);
      mutex_.Unlock();
      Finish(std::move(commits));
      mutex_.Lock();
    } else if (submitted_ == 0 && closing_) {
      return;
    } else if (submitted_ == 0) {
      flusher_wake_.Wait(mutex_);
    } else if (leading_) {
      changed_.Wait(mutex_);
    } else if (Clock::now() < FlushTime()) {
      flusher_wake_.WaitUntil(mutex_, FlushTime());
    } else {
      Lead();
    }
  }
}

void CommitQueue::Finish(std::vector<std::unique_ptr<QueuedCommit>> commits) {
  for (const auto& commit : commits) {
    if (commit->status.ok() && commit->written && commit->durability == Durability::kDisk) {
      commit->status = SyncUpTo(commit->group_);
    }
    commit->done_();
  }
}

void CommitQueue::Close() {
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
