#pragma once

#include <atomic>
#include <memory>

#include "base/thread/fork_guard.h"

namespace topicdb {

// An object of which a process has one. It is never destroyed. A forked child gets one of its own,
// since its parent's may have been in any state at the moment of the fork; that one is left as it
// is. Thread-safe.
template <typename Value>
class PerProcess {
 public:
  // Returns the object of this process. `make` must return a std::unique_ptr to a new one. Threads
  // that call Get at the same time may each call `make`, but all get the same object.
  template <typename Make>
  Value& Get(Make make) {
    Held* now = held_.load();
    while (now == nullptr || now->fork_guard.Forked()) {
      auto made = std::make_unique<Held>();
      made->value = make();
      if (held_.compare_exchange_strong(now, made.get())) now = made.release();
    }
    return *now->value;
  }

 private:
  struct Held {
    const ForkGuard fork_guard;
    std::unique_ptr<Value> value;
  };
  std::atomic<Held*> held_{nullptr};
};

}  // namespace topicdb
