#include "store/view/sealer.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace topicdb {

namespace {
constexpr std::chrono::milliseconds kStepPatience(100);
}  // namespace

Sealer::~Sealer() { Stop(); }

bool Sealer::IsDue(const Sealable* sealable) const {
  return std::any_of(due_.begin(), due_.end(),
                     [&](const Sealable* due) { return due == sealable; });
}

void Sealer::Enqueue(Sealable* sealable) {
  if (stopping_ || IsDue(sealable)) return;
  due_.push_back(sealable);
  changed_.NotifyAll();
}

bool Sealer::StartThread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

bool Sealer::Wake(Sealable* sealable) {
  const MutexLock lock(mutex_);
  Enqueue(sealable);
  return stopping_ || StartThread();
}

void Sealer::Forget(Sealable* sealable) {
  {
    const MutexLock lock(mutex_);
    std::erase(due_, sealable);
    if (running_ == sealable) running_ = nullptr;  // it does not come again
  }
  const MutexLock until_done(run_mutex_);
}

void Sealer::Stop() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    due_.clear();
    thread.swap(thread_);
    changed_.NotifyAll();
  }
  if (thread.joinable()) thread.join();
}

bool Sealer::stopped() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

bool Sealer::IsBusyWith(const Sealable* sealable) const {
  const MutexLock lock(mutex_);
  return running_ == sealable || IsDue(sealable);
}

void Sealer::WaitForStep() {
  const auto deadline = std::chrono::steady_clock::now() + kStepPatience;
  const MutexLock lock(mutex_);
  if (!stopping_) changed_.WaitUntil(mutex_, deadline);
}

void Sealer::NotifyStep() {
  const MutexLock lock(mutex_);
  changed_.NotifyAll();
}

void Sealer::Run() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      while (due_.empty() && !stopping_) changed_.Wait(mutex_);
      if (stopping_) return;
    }
    const MutexLock run(run_mutex_);
    Sealable* next = nullptr;
    {
      const MutexLock lock(mutex_);
      if (due_.empty()) continue;
      next = due_.front();
      due_.pop_front();
      running_ = next;
    }
    // A shard keeps the error of a step that fails, and its next commits wake the sealer again.
    const Result<bool> more = next->SealDue();
    const MutexLock lock(mutex_);
    if (running_ == next && more.ok() && *more) Enqueue(next);
    running_ = nullptr;
  }
}

}  // namespace topicdb
