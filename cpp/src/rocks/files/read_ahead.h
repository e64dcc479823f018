// Fetches parts of objects before a reader needs them.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"

namespace topicdb::rocks {

// Runs requests to an object store in a few threads of its own, which it starts when it needs them.
// The file system of an open upload owns it, for the files there. Destroying it drops the requests
// that have not begun, and waits for the others. Thread-safe.
class ReadAhead {
 public:
  // The most threads, and so the most requests at a time.
  static constexpr std::size_t kThreadsMax = 2;
  // The most requests that wait for a thread or are under way.
  static constexpr std::size_t kRequestsMax = 4;

  ReadAhead() = default;
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Calls `request` soon in another thread. Returns false, and never calls it, if there are too
  // many requests already or if the system gives no thread. `request` must not throw.
  bool Submit(std::function<void()> request) TOPICDB_EXCLUDES(mutex_);

 private:
  void Work() TOPICDB_EXCLUDES(mutex_);
  // Starts a thread if all are at work. Returns false if there is none.
  bool HasThread() TOPICDB_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  bool is_ending_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::size_t running_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::deque<std::function<void()>> waiting_ TOPICDB_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb::rocks
