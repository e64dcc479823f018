#include "store/database/job_watcher.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "base/file/files.h"
#include "base/thread/mutex.h"
#include "test_directory.h"

namespace topicdb {
namespace {

// Counts calls, and lets other threads wait for them.
class Calls {
 public:
  void Note() {
    const MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  int count() {
    const MutexLock lock(mutex_);
    return count_;
  }
  void WaitForMoreThan(int count) {
    const MutexLock lock(mutex_);
    while (count_ <= count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ TOPICDB_GUARDED_BY(mutex_) = 0;
};

TEST(JobWatcher, NoticesEachNewName) {
  const TestDirectory directory;
  Calls calls;
  const auto watcher = JobWatcher::Start(directory / "", [&] { calls.Note(); });
  ASSERT_TRUE(watcher.ok()) << watcher.status().message();
  for (int i = 0; i < 5; ++i) {
    const int before = calls.count();
    ASSERT_TRUE(WriteFileAtomically(directory / std::to_string(i), "").ok());
    calls.WaitForMoreThan(before);
  }
}

// The system may lack what tells of changes, and may not tell of them.
TEST(JobWatcher, LooksNowAndThenWithoutANotice) {
  const TestDirectory directory;
  Calls calls;
  const auto watcher = JobWatcher::Start(directory / "missing", [&] { calls.Note(); });
  ASSERT_TRUE(watcher.ok()) << watcher.status().message();
  calls.WaitForMoreThan(0);
}

TEST(JobWatcher, ItsEndWaitsForTheCallThatRuns) {
  const TestDirectory directory;
  Calls begun;
  Calls released;
  std::atomic<bool> ended{false};
  auto watcher = JobWatcher::Start(directory / "", [&] {
    begun.Note();
    released.WaitForMoreThan(0);
    ended = true;
  });
  ASSERT_TRUE(watcher.ok()) << watcher.status().message();
  ASSERT_TRUE(WriteFileAtomically(directory / "new", "").ok());
  begun.WaitForMoreThan(0);
  std::thread releaser([&] { released.Note(); });
  watcher->reset();
  EXPECT_TRUE(ended);
  releaser.join();
}

TEST(JobWatcher, EndsAlthoughAForkedChildHasItsDescriptors) {
  const TestDirectory directory;
  auto watcher = JobWatcher::Start(directory / "", [] {});
  ASSERT_TRUE(watcher.ok()) << watcher.status().message();
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  ASSERT_GT(child, 0);
  watcher->reset();
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(JobWatcher, EndsThoughNothingHappens) {
  const TestDirectory directory;
  for (int i = 0; i < 10; ++i) {
    const auto watcher = JobWatcher::Start(directory / "", [] {});
    ASSERT_TRUE(watcher.ok()) << watcher.status().message();
  }
}

}  // namespace
}  // namespace topicdb
