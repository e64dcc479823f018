#include "store/care/janitor.h"

#include <algorithm>

namespace topicdb {

namespace {

// The clock cannot show the end of an interval that is much longer.
constexpr std::chrono::microseconds kIntervalMax = std::chrono::years(100);

}  // namespace

Janitor::Janitor(std::chrono::microseconds interval, std::function<void()> work)
    : interval_(std::min(interval, kIntervalMax)),
      work_(std::move(work)),
      thread_([this] { Run(); }) {}

Janitor::~Janitor() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Janitor::Run() {
  while (true) {
    work_();
    const auto deadline = std::chrono::steady_clock::now() + interval_;
    const MutexLock lock(mutex_);
    while (!stopping_ && std::chrono::steady_clock::now() < deadline) {
      changed_.WaitUntil(mutex_, deadline);
    }
    if (stopping_) return;
  }
}

}  // namespace topicdb
