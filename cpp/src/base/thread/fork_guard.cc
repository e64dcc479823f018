#include "base/thread/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace topicdb {

namespace {

// Counts the forks between the first process and this one. It is never freed, and only the handler
// in the child changes it, so it can be read in any state of the child.
std::atomic<std::uint64_t> fork_epoch{1};

void CountFork() { fork_epoch.fetch_add(1, std::memory_order_relaxed); }

std::uint64_t CurrentEpoch() {
  static const int registered = pthread_atfork(nullptr, nullptr, &CountFork);
  static_cast<void>(registered);
  return fork_epoch.load(std::memory_order_relaxed);
}

}  // namespace

ForkGuard::ForkGuard() : epoch_(CurrentEpoch()) {}

bool ForkGuard::Forked() const { return epoch_ != fork_epoch.load(std::memory_order_relaxed); }

}  // namespace topicdb
