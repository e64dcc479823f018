// Calls a function again and again from a thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/thread/mutex.h"

namespace topicdb {

// Owns the thread that calls `work`, and holds no lock during a call. The DatabaseUpkeep of an open
// database owns it. Whoever owns it makes and destroys it; it has no other methods.
class Janitor {
 public:
  // Starts the thread. The first call comes at once, each further one `interval` after the end of
  // the one before. An interval of more than 100 years counts as that.
  Janitor(std::chrono::microseconds interval, std::function<void()> work);
  // Ends the thread. Returns when `work` does not run any more.
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
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace topicdb
