// Lets tests see the fsyncs of the test program, and make them fail. It links TopicDB and RocksDB
// statically, so fdatasync and fsync of together/fsync_failure_test.cc take the place of those of
// the C library in all of it. TopicDB calls fdatasync for files, and fsync for directories.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace topicdb {

// While this is true, fdatasync fails.
inline std::atomic<bool> fsync_fails{false};
// Unless this is null, fsync fails while nothing exists at this path.
inline std::atomic<const char*> fsync_needs{nullptr};

// As long as it lives, each thread that has fsynced a file or directory calls `hook` with its path.
// There is one of each kind at a time. Thread-safe; the hook must be, too.
template <typename Kind>
class SyncHook {
 public:
  using Hook = std::function<void(const std::string& path)>;

  explicit SyncHook(Hook hook) { Set(std::make_shared<const Hook>(std::move(hook))); }
  ~SyncHook() { Set(nullptr); }
  SyncHook(const SyncHook&) = delete;
  SyncHook& operator=(const SyncHook&) = delete;

  // Calls the hook, if there is one.
  static void Call(const std::string& path) {
    std::shared_ptr<const Hook> hook;
    {
      const std::lock_guard lock(mutex_);
      hook = hook_;
    }
    if (hook != nullptr) (*hook)(path);
  }

 private:
  static void Set(std::shared_ptr<const Hook> hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }

  inline static std::mutex mutex_;
  inline static std::shared_ptr<const Hook> hook_;
};
using FsyncHook = SyncHook<struct FileSync>;
using DirectorySyncHook = SyncHook<struct DirectorySync>;

}  // namespace topicdb
