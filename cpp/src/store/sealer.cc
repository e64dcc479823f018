#include "store/sealer.h"

#include <chrono>

namespace topicdb {

namespace {
constexpr std::chrono::milliseconds kStepPatience(100);
}  // namespace

Sealer::~Sealer() { Stop(); }

void Sealer::Wake(Sealable* sealable) {
  const MutexLock lock(mutex_);
  if (stopping_ || !due_.insert(sealable).second) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.NotifyAll();
}

void Sealer::Forget(Sealable* sealable) {
  {
    const MutexLock lock(mutex_);
    due_.erase(sealable);
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
      if (!due_.empty()) next = *due_.begin();
      due_.erase(next);
    }
    // What fails is kept by the shard, which is woken again by its next commits.
    if (next != nullptr) next->SealDue().IgnoreError();
  }
}

}  // namespace topicdb
