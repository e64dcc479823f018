// Wakes the threads that wait for commits.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/thread/mutex.h"

namespace topicdb {

// Counts the commits of all shards of a database, and lets threads wait for the next one. The
// environment of the open database owns it. Thread-safe. Lock rule: nobody takes another lock under
// mutex_.
class CommitSignal {
 public:
  // Returns how many calls of Notify there were so far.
  std::uint64_t count() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return count_;
  }
  // Counts a commit and wakes the threads that wait. Shards call it once a commit is visible. The
  // database and its hub call it to have threads look at their state again.
  void Notify() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++count_;
    if (waiting_ > 0) changed_.NotifyAll();
  }
  // Returns when the count is not `seen` any more, or at the deadline.
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
