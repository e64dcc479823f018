#include "rocks/files/process_threads.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/thread/fork_guard.h"

namespace topicdb::rocks {

namespace {

// These are never freed. While a process is being forked, only the handler in the child uses them.
std::atomic<std::uint64_t> writing_handles{0};
std::atomic<bool> forked_while_writing{false};

void NoteFork() {
  if (writing_handles.exchange(0) > 0) forked_while_writing.store(true);
}

// Runs each job in a thread of its own. RocksDB limits how many jobs there are at a time.
// Thread-safe.
class EnvWithoutPool : public rocksdb::EnvWrapper {
 public:
  explicit EnvWithoutPool(rocksdb::Env* base) : EnvWrapper(base) {
    // Without this, each call of the file system or the clock would go through an older interface
    // of environments.
    file_system_ = base->GetFileSystem();
    system_clock_ = base->GetSystemClock();
  }

  static const char* kClassName() { return "EnvWithoutPool"; }
  const char* Name() const override { return kClassName(); }

  void IncBackgroundThreadsIfNeeded(int /*number*/, Priority /*pri*/) override {}
  void SetBackgroundThreads(int /*number*/, Priority /*pri*/) override {}
  // There are as many threads as jobs. RocksDB only asks whether there are any.
  int GetBackgroundThreads(Priority pri) override { return pri == Priority::BOTTOM ? 0 : 1; }
  int ReserveThreads(int /*number*/, Priority /*pri*/) override { return 0; }
  int ReleaseThreads(int /*number*/, Priority /*pri*/) override { return 0; }
  unsigned int GetThreadPoolQueueLen(Priority /*pri*/) const override { return 0; }

  // The thread may be detached, since RocksDB waits for its jobs before it closes.
  void Schedule(void (*function)(void*), void* argument, Priority /*pri*/, void* /*tag*/,
                void (* /*when_unscheduled*/)(void*)) override {
    std::thread(function, argument).detach();
  }
  int UnSchedule(void* /*tag*/, Priority /*pri*/) override { return 0; }
};

// Counts a writing handle as long as it lives. It listens to no event.
class WritingMark : public rocksdb::EventListener {
 public:
  WritingMark() {
    static const int registered = pthread_atfork(nullptr, nullptr, &NoteFork);
    static_cast<void>(registered);
    writing_handles.fetch_add(1);
  }
  ~WritingMark() override {
    if (!fork_guard_.Forked()) writing_handles.fetch_sub(1);
  }

 private:
  const ForkGuard fork_guard_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> WithoutPool(rocksdb::Env* base) {
  return std::make_unique<EnvWithoutPool>(base);
}

bool HasPool() {
  static const ForkGuard first_writer;  // its process makes the threads
  return !first_writer.Forked();
}

Status CheckProcessMayWrite() {
  if (!forked_while_writing.load()) return Status::Ok();
  return Forked(
      "this process was forked while its parent had a database open for writing, so it can read, "
      "but not write: close databases before the fork, or use the 'spawn' or 'forkserver' start "
      "method");
}

std::shared_ptr<rocksdb::EventListener> MarkWriting() { return std::make_shared<WritingMark>(); }

}  // namespace topicdb::rocks
