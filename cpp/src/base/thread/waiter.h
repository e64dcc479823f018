#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace topicdb {

// Puts one thread to sleep, and wakes it. It belongs to its thread and is shared with who is about
// to wake it, so that a wake-up that comes late finds it still there.
class Waiter {
 public:
  // That of the calling thread.
  static const std::shared_ptr<Waiter>& OfThread() {
    thread_local const std::shared_ptr<Waiter> waiter = std::make_shared<Waiter>();
    return waiter;
  }

  // To be called where the condition is checked, under its lock: a Wake from then on ends the Wait.
  void Arm() { signal_.store(0, std::memory_order_relaxed); }
  // May end without a cause.
  void Wait() { signal_.wait(0, std::memory_order_acquire); }
  void Wake() {
    signal_.store(1, std::memory_order_release);
    signal_.notify_one();
  }

 private:
  std::atomic<std::uint32_t> signal_{0};
};

}  // namespace topicdb
