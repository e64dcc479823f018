#include "base/thread/pause_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace topicdb {
namespace {

TEST(PauseGate, NobodyIsInWhileItIsPaused) {
  constexpr int kThreads = 4;
  PauseGate gate;
  std::atomic<int> inside = 0;
  std::atomic<int> entered = 0;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        gate.Enter();
        ++inside;
        ++entered;
        --inside;
        gate.Leave();
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const int before = entered;
    {
      const PauseGate::Pause pause(gate);
      EXPECT_EQ(inside, 0);
      const int then = entered;
      std::this_thread::yield();
      EXPECT_EQ(entered, then);
    }
    while (entered == before) std::this_thread::yield();  // until a thread has entered again
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(PauseGate, AnotherThreadMayLeave) {
  PauseGate gate;
  gate.Enter();
  std::thread other([&] { gate.Leave(); });
  const PauseGate::Pause pause(gate);  // waits until the other thread has left
  other.join();
}

}  // namespace
}  // namespace topicdb
