#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace topicdb {

// Puts one thread to sleep, and wakes it. Its thread shares it with the threads that are about to
// wake it, so that a late call of Wake still finds it. Only its thread may call Arm and Wait; any
// thread may call Wake.
class Waiter {
 public:
  // Returns the waiter of the calling thread.
  static const std::shared_ptr<Waiter>& OfThread() {
    thread_local const std::shared_ptr<Waiter> waiter = std::make_shared<Waiter>();
    return waiter;
  }

  // The thread must call Arm where it checks its condition, under the lock of the condition. A Wake
  // from then on ends the Wait.
  void Arm() { signal_.store(0, std::memory_order_relaxed); }
  // Sleeps until a Wake that comes after Arm. A late Wake for an earlier condition ends it, too, so
  // the thread must check its condition again.
  void Wait() { signal_.wait(0, std::memory_order_acquire); }
  // Ends the Wait of the thread, now or when the thread calls it.
  void Wake() {
    signal_.store(1, std::memory_order_release);
    signal_.notify_one();
  }

 private:
  std::atomic<std::uint32_t> signal_{0};
};

}  // namespace topicdb
