// The thread that seals, one for all shards of a database: so at most one block is being sealed at
// a time, whatever the number of shards.
#pragma once

#include <set>
#include <thread>

#include "base/mutex.h"
#include "topicdb/status.h"

namespace topicdb {

// What has something to seal.
class Sealable {
 public:
  Sealable() = default;
  virtual ~Sealable() = default;
  Sealable(const Sealable&) = delete;
  Sealable& operator=(const Sealable&) = delete;
  virtual Status SealDue() = 0;
};

// Thread-safe. Lock rule: mutex_ is never held while something is sealed, run_mutex_ always is, in
// any thread; no other lock is held when that is taken.
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

  // To be held by whoever seals.
  Mutex& run_mutex() TOPICDB_RETURN_CAPABILITY(run_mutex_) { return run_mutex_; }
  // Waits until something was sealed, or has failed, or some time has passed.
  void WaitForStep() TOPICDB_EXCLUDES(mutex_);
  void NotifyStep() TOPICDB_EXCLUDES(mutex_);

 private:
  void Run() TOPICDB_EXCLUDES(mutex_, run_mutex_);

  Mutex run_mutex_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<Sealable*> due_ TOPICDB_GUARDED_BY(mutex_);
  bool stopping_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread thread_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
