#include "rocks/files/read_ahead.h"

#include <system_error>
#include <utility>

namespace topicdb::rocks {

ReadAhead::~ReadAhead() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    waiting_.clear();
    threads = std::move(threads_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

bool ReadAhead::Submit(std::function<void()> request) {
  const MutexLock lock(mutex_);
  if (running_ + waiting_.size() >= kRequestsMax || !HasThread()) return false;
  waiting_.push_back(std::move(request));
  changed_.NotifyOne();
  return true;
}

bool ReadAhead::HasThread() {
  if (running_ + waiting_.size() < threads_.size() || threads_.size() == kThreadsMax) return true;
  try {
    threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    return !threads_.empty();
  }
  return true;
}

void ReadAhead::Work() {
  while (true) {
    std::function<void()> request;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !is_ending_) changed_.Wait(mutex_);
      if (is_ending_) return;
      request = std::move(waiting_.front());
      waiting_.pop_front();
      ++running_;
    }
    request();
    const MutexLock lock(mutex_);
    --running_;
  }
}

}  // namespace topicdb::rocks
