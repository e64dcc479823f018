// Lets calls enter until it is closed, and then waits for those that are inside.
#pragma once

#include <atomic>
#include <cstdint>

namespace topicdb {

// Counts the calls that are inside. Its owner must keep it alive until the last of them has left.
// It costs a third of a shared mutex, since a call only adds to one counter and takes that back.
// Thread-safe.
class CallGate {
 public:
  // A call. If it entered, it is inside as long as this object lives.
  class Call {
   public:
    explicit Call(CallGate& gate) : gate_(gate), entered_(gate.Enter()) {}
    ~Call() {
      if (entered_) gate_.Leave();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    bool entered() const { return entered_; }

   private:
    CallGate& gate_;
    const bool entered_;
  };

  // Lets no more calls enter. Returns false if the gate was closed before.
  bool Close() { return (state_.fetch_or(kClosed) & kClosed) == 0; }
  bool closed() const { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }
  // Returns when no call is inside. REQUIRES: closed()
  void WaitForCalls() {
    for (std::uint32_t state = state_.load(); state != kClosed; state = state_.load()) {
      state_.wait(state);
    }
  }

 private:
  static constexpr std::uint32_t kClosed = 1;
  static constexpr std::uint32_t kOneCall = 2;

  bool Enter() {
    if ((state_.fetch_add(kOneCall, std::memory_order_acquire) & kClosed) == 0) return true;
    Leave();
    return false;
  }
  void Leave() {
    const std::uint32_t before = state_.fetch_sub(kOneCall, std::memory_order_release);
    if ((before & kClosed) != 0) state_.notify_all();
  }

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace topicdb
