// Runs the thread that seals. There is one for all shards of a database, so at most one block is
// being sealed at a time, whatever the number of shards.
#pragma once

#include <deque>
#include <thread>

#include "base/thread/mutex.h"
#include "topicdb/status.h"

namespace topicdb {

// An object that may have something to seal, or other work in steps for the same thread.
class Sealable {
 public:
  Sealable() = default;
  virtual ~Sealable() = default;
  Sealable(const Sealable&) = delete;
  Sealable& operator=(const Sealable&) = delete;
  // Seals the blocks for which commits may wait, and takes one step of other work. Returns true if
  // there may be more to do. The thread of the sealer calls this, with run_mutex() held.
  virtual Result<bool> SealDue() = 0;
};

// Runs the thread that seals and lets the objects that wait for it take turns. The ShardEnvironment
// of an open database owns it. Thread-safe.
//
// Lock rule: nobody takes another lock under mutex_, or holds mutex_ while something is sealed.
// Whoever seals, in any thread, holds run_mutex_. Nobody holds another lock when taking run_mutex_.
class Sealer {
 public:
  Sealer() = default;
  ~Sealer();
  Sealer(const Sealer&) = delete;
  Sealer& operator=(const Sealer&) = delete;

  // Makes the thread call sealable->SealDue soon, and starts the thread if it does not run. Returns
  // false if the system gives no more threads: the next call tries again. The caller must call
  // Forget before `sealable` is destroyed.
  bool Wake(Sealable* sealable) TOPICDB_EXCLUDES(mutex_);
  // Returns when the thread is done with `sealable`. Nobody may wake `sealable` any more.
  void Forget(Sealable* sealable) TOPICDB_EXCLUDES(mutex_, run_mutex_);
  // Ends the thread after its current step. From then on, Wake does nothing.
  void Stop() TOPICDB_EXCLUDES(mutex_);
  bool stopped() const TOPICDB_EXCLUDES(mutex_);
  // Returns whether the thread calls sealable->SealDue now, or is about to.
  bool IsBusyWith(const Sealable* sealable) const TOPICDB_EXCLUDES(mutex_);

  // Returns the mutex that whoever seals must hold.
  Mutex& run_mutex() TOPICDB_RETURN_CAPABILITY(run_mutex_) { return run_mutex_; }
  // Waits until something was sealed, sealing has failed, or some time has passed.
  void WaitForStep() TOPICDB_EXCLUDES(mutex_);
  // Wakes the threads in WaitForStep. Whoever seals calls it after each step.
  void NotifyStep() TOPICDB_EXCLUDES(mutex_);

 private:
  // Runs the thread.
  void Run() TOPICDB_EXCLUDES(mutex_, run_mutex_);

  // Adds `sealable` behind the others that are due, unless it is there already.
  void Enqueue(Sealable* sealable) TOPICDB_REQUIRES(mutex_);
  // Starts the thread unless it runs. Returns false if the system gives no more threads.
  bool StartThread() TOPICDB_REQUIRES(mutex_);
  // Returns whether `sealable` is in due_.
  bool IsDue(const Sealable* sealable) const TOPICDB_REQUIRES(mutex_);

  Mutex run_mutex_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Sealable*> due_ TOPICDB_GUARDED_BY(mutex_);  // each once; they take turns
  const Sealable* running_ TOPICDB_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread thread_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
