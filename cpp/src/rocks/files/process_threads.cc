#include "rocks/files/process_threads.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/thread/fork_guard.h"

namespace topicdb::rocks {

namespace {

// Never freed, and touched by nothing but the child handler while a process is being forked.
std::atomic<std::uint64_t> writing_handles{0};
std::atomic<bool> forked_while_writing{false};

void NoteFork() {
  if (writing_handles.exchange(0) > 0) forked_while_writing.store(true);
}

// Runs each job in a thread of its own. RocksDB bounds how many there are at a time.
class EnvWithoutPool : public rocksdb::EnvWrapper {
 public:
  explicit EnvWithoutPool(rocksdb::Env* base) : EnvWrapper(base) {
    // A wrapper would reach them through the interface that environments had before, call by call.
    file_system_ = base->GetFileSystem();
    system_clock_ = base->GetSystemClock();
  }

  static const char* kClassName() { return "EnvWithoutPool"; }
  const char* Name() const override { return kClassName(); }

  void IncBackgroundThreadsIfNeeded(int /*number*/, Priority /*pri*/) override {}
  void SetBackgroundThreads(int /*number*/, Priority /*pri*/) override {}
  // As many as it takes; RocksDB asks whether there are any.
  int GetBackgroundThreads(Priority pri) override { return pri == Priority::BOTTOM ? 0 : 1; }
  int ReserveThreads(int /*number*/, Priority /*pri*/) override { return 0; }
  int ReleaseThreads(int /*number*/, Priority /*pri*/) override { return 0; }
  unsigned int GetThreadPoolQueueLen(Priority /*pri*/) const override { return 0; }

  // RocksDB waits for its jobs before it closes.
  void Schedule(void (*function)(void*), void* argument, Priority /*pri*/, void* /*tag*/,
                void (* /*when_unscheduled*/)(void*)) override {
    std::thread(function, argument).detach();
  }
  int UnSchedule(void* /*tag*/, Priority /*pri*/) override { return 0; }
};

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
  static const ForkGuard first_writer;  // the threads are made by it
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
