// Notices that other processes have committed jobs while a database is open for writing.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/thread/mutex.h"
#include "topicdb/status.h"

namespace topicdb {

// Owns a thread that sleeps until something in a directory gets a new name. Thread-safe.
class JobWatcher {
 public:
  // Starts the thread, which calls `changed`. The thread also calls it from time to time without a
  // reason, because some file systems tell nothing. The directory must exist. kStorage.
  static Result<std::unique_ptr<JobWatcher>> Start(const std::string& directory,
                                                   std::function<void()> changed);
  // Ends the thread. Returns when `changed` does not run any more.
  ~JobWatcher();
  JobWatcher(const JobWatcher&) = delete;
  JobWatcher& operator=(const JobWatcher&) = delete;

 private:
  JobWatcher(int notify_fd, int stop_fd, std::function<void()> changed);
  void Run();

  const int notify_fd_;
  const int stop_fd_;
  const std::function<void()> changed_;
  std::thread thread_;
};

}  // namespace topicdb
