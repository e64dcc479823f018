#include "store/care/janitor.h"

namespace topicdb {

Janitor::Janitor(std::chrono::microseconds interval, std::function<void()> work)
    : interval_(interval), work_(std::move(work)), thread_([this] { Run(); }) {}

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
