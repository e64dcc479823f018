#pragma once

#include <atomic>
#include <memory>

#include "base/thread/fork_guard.h"

namespace topicdb {

// What a process has one of. A forked child gets one of its own: its parent's may have been in any
// state at the moment of the fork, and is left as it is. Never destroyed.
template <typename Value>
class PerProcess {
 public:
  // The one of this process; `make` gives a std::unique_ptr to a new one.
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
