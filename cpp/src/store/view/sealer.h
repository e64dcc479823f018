// The thread that seals, one for all shards of a database: so at most one block is being sealed at
// a time, whatever the number of shards.
#pragma once

#include <deque>
#include <thread>

#include "base/thread/mutex.h"
#include "topicdb/status.h"

namespace topicdb {

// What has something to seal.
class Sealable {
 public:
  Sealable() = default;
  virtual ~Sealable() = default;
  Sealable(const Sealable&) = delete;
  Sealable& operator=(const Sealable&) = delete;
  // Seals what commits may wait for, and takes one step of what nobody waits for. True: there may
  // be more to do.
  virtual Result<bool> SealDue() = 0;
};

// Thread-safe. Lock rule: no other lock is taken under mutex_, and it is never held while something
// is sealed. run_mutex_ always is then, in any thread; no other lock is held when that is taken.
class Sealer {
 public:
  Sealer() = default;
  ~Sealer();
  Sealer(const Sealer&) = delete;
  Sealer& operator=(const Sealer&) = delete;

  // Lets `sealable` seal soon. It must be forgotten before it goes. Starts the thread if need be.
  void Wake(Sealable* sealable) TOPICDB_EXCLUDES(mutex_);
  // Returns when the thread is done with it. Nothing may wake it any more.
  void Forget(Sealable* sealable) TOPICDB_EXCLUDES(mutex_, run_mutex_);
  // Ends the thread, after the step that it is in. Nothing is woken from then on.
  void Stop() TOPICDB_EXCLUDES(mutex_);
  bool stopped() const TOPICDB_EXCLUDES(mutex_);
  // The thread is about to let it seal, or does.
  bool IsBusyWith(const Sealable* sealable) const TOPICDB_EXCLUDES(mutex_);

  // To be held by whoever seals.
  Mutex& run_mutex() TOPICDB_RETURN_CAPABILITY(run_mutex_) { return run_mutex_; }
  // Waits until something was sealed, or has failed, or some time has passed.
  void WaitForStep() TOPICDB_EXCLUDES(mutex_);
  void NotifyStep() TOPICDB_EXCLUDES(mutex_);

 private:
  void Run() TOPICDB_EXCLUDES(mutex_, run_mutex_);

  // Adds it behind the others, if it is not there.
  void Enqueue(Sealable* sealable) TOPICDB_REQUIRES(mutex_);
  bool IsDue(const Sealable* sealable) const TOPICDB_REQUIRES(mutex_);

  Mutex run_mutex_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Sealable*> due_ TOPICDB_GUARDED_BY(mutex_);  // each once: they take turns
  const Sealable* running_ TOPICDB_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread thread_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
