// Notices that other processes have committed jobs while a database is open for writing.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <thread>

#include "base/thread/mutex.h"
#include "topicdb/status.h"

namespace topicdb {

// Owns a thread that sleeps until something in a directory gets a new name. The DatabaseJobs of an
// open database owns it. Whoever owns it starts and destroys it; it has no other methods.
class JobWatcher {
 public:
  // Starts the thread, which calls `changed`. The thread also calls it once a second without a
  // reason, because some file systems do not tell of changes. The directory must exist. Returns
  // kStorage if the system has no descriptor left.
  static Result<std::unique_ptr<JobWatcher>> Start(const std::string& directory,
                                                   std::function<void()> changed);
  // Ends the thread. Returns when `changed` does not run any more.
  ~JobWatcher();
  JobWatcher(const JobWatcher&) = delete;
  JobWatcher& operator=(const JobWatcher&) = delete;

 private:
  JobWatcher(int notify_fd, std::array<int, 2> stop, std::function<void()> changed);
  void Run();

  const int notify_fd_;
  const int stop_fd_;  // can be read when the thread is to end
  const int stop_writer_fd_;
  const std::function<void()> changed_;
  std::thread thread_;
};

}  // namespace topicdb
