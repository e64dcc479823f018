// Wakes those who wait for commits.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/thread/mutex.h"

namespace topicdb {

// Thread-safe. Lock rule: mutex_ is the innermost lock.
class CommitSignal {
 public:
  // Commits of all shards, so far.
  std::uint64_t count() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return count_;
  }
  void Notify() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++count_;
    if (waiting_ > 0) changed_.NotifyAll();
  }
  // Until there are other commits than `seen`, or the deadline.
  void WaitUntil(std::uint64_t seen, std::chrono::steady_clock::time_point deadline)
      TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++waiting_;
    while (count_ == seen && std::chrono::steady_clock::now() < deadline) {
      changed_.WaitUntil(mutex_, deadline);
    }
    --waiting_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::uint64_t count_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t waiting_ TOPICDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace topicdb
