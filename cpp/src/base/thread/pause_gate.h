// Lets calls enter and leave, from any threads, and can keep all of them out for a while.
#pragma once

#include <cstdint>

#include "base/thread/mutex.h"

namespace topicdb {

// Counts the calls that are inside, so that a Pause can wait for them. Its owner must keep it alive
// while calls are inside. Thread-safe.
class PauseGate {
 public:
  // Its constructor waits until no call is inside. While it lives, calls wait in Enter. Pauses that
  // are made at the same time wait for each other. A thread that is inside must not make one: it
  // would wait for itself.
  class Pause {
   public:
    explicit Pause(PauseGate& gate) : gate_(gate) { gate_.Shut(); }
    ~Pause() { gate_.Open(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    PauseGate& gate_;
  };

  // Waits while the gate is shut. The caller must call Leave later, from any thread.
  void Enter() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (shut_) changed_.Wait(mutex_);
    ++inside_;
  }
  void Leave() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (--inside_ == 0 && shut_) changed_.NotifyAll();
  }

 private:
  void Shut() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (shut_) changed_.Wait(mutex_);
    shut_ = true;
    while (inside_ > 0) changed_.Wait(mutex_);
  }
  void Open() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    shut_ = false;
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  bool shut_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::uint64_t inside_ TOPICDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace topicdb
