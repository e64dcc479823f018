#include "store/care/janitor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/thread/mutex.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

// Counts calls, and lets other threads wait for them.
class Calls {
 public:
  void Note() {
    const MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  void WaitFor(int count) {
    const MutexLock lock(mutex_);
    while (count_ < count) changed_.Wait(mutex_);
  }
  int count() {
    const MutexLock lock(mutex_);
    return count_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ TOPICDB_GUARDED_BY(mutex_) = 0;
};

TEST(Janitor, WorksAtOnceAndDoesNotWaitForItsIntervalToEnd) {
  Calls calls;
  {
    const Janitor janitor(1'000h, [&] { calls.Note(); });
    calls.WaitFor(1);
  }
  EXPECT_EQ(calls.count(), 1);
}

TEST(Janitor, WithAnIntervalThatNoClockCanShowItWorksOnce) {
  Calls calls;
  {
    const Janitor janitor(std::chrono::microseconds::max(), [&] { calls.Note(); });
    calls.WaitFor(1);
  }
  EXPECT_EQ(calls.count(), 1);
}

TEST(Janitor, WorksAgainAndAgain) {
  Calls calls;
  const Janitor janitor(1us, [&] { calls.Note(); });
  calls.WaitFor(5);
}

TEST(Janitor, ItsEndWaitsForTheWorkThatRuns) {
  Calls begun;
  Calls released;
  std::atomic<bool> ended{false};
  std::thread releaser;
  {
    const Janitor janitor(1'000h, [&] {
      begun.Note();
      released.WaitFor(1);
      ended = true;
    });
    begun.WaitFor(1);
    releaser = std::thread([&] { released.Note(); });
  }
  EXPECT_TRUE(ended);
  releaser.join();
  EXPECT_EQ(begun.count(), 1);
}

}  // namespace
}  // namespace topicdb
