// Passes items from threads of the core to Python. The threads put them in without the GIL, and one
// thread of Python takes them out.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "topicdb/database.h"
#include "topicdb/transaction.h"

namespace topicdb::python {

// Keeps items until Python takes them. Python and the calls that add items share it. Thread-safe.
// No method needs the GIL, and callers of Take must not hold it.
template <typename Item>
class Mailbox {
 public:
  void Add(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_one();
  }
  // Ends calls of Take that wait. Items may still be added and taken.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  // Waits for items and returns all there are. Returns none if the mailbox is closed and empty, or
  // if none came within `timeout`.
  std::vector<Item> Take(std::optional<std::chrono::microseconds> timeout = std::nullopt) {
    std::unique_lock lock(mutex_);
    const auto is_done = [&] { return closed_ || !items_.empty(); };
    if (timeout.has_value()) {
      changed_.wait_for(lock, *timeout, is_done);
    } else {
      changed_.wait(lock, is_done);
    }
    return std::exchange(items_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> items_;
  bool closed_ = false;
};

// The outcome of an asynchronous append or commit.
struct Completion {
  std::uint64_t token;
  Result<Receipt> outcome;
  CommitFault fault = {};
};
using Completions = Mailbox<Completion>;

// The tokens of subscriptions that have something to give.
using ReadyTokens = Mailbox<std::uint64_t>;

}  // namespace topicdb::python
