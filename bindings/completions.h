// Outcomes of asynchronous appends on their way to Python: threads of the core put them here
// without the GIL, and one thread of Python takes them out.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "topicdb/database.h"

namespace topicdb::python {

// Thread-safe.
class Completions {
 public:
  struct Item {
    std::uint64_t token;
    Result<Receipt> outcome;
  };

  void Add(std::uint64_t token, Result<Receipt> outcome) {
    const std::lock_guard lock(mutex_);
    items_.push_back({token, std::move(outcome)});
    changed_.notify_one();
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  // At least one; none when it is closed and all were taken.
  std::vector<Item> Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return std::exchange(items_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> items_;
  bool closed_ = false;
};

}  // namespace topicdb::python
