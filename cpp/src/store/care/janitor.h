// Calls something again and again from a thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/thread/mutex.h"

namespace topicdb {

// Thread-safe.
class Janitor {
 public:
  // The first call comes at once.
  Janitor(std::chrono::microseconds interval, std::function<void()> work);
  // Returns when `work` does not run any more.
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

 private:
  void Run() TOPICDB_EXCLUDES(mutex_);

  const std::chrono::microseconds interval_;
  const std::function<void()> work_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace topicdb
