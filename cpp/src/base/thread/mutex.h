// Mutexes that clang's thread safety analysis understands (std::mutex carries no annotations in
// libstdc++). `make lint` runs the analysis; other compilers see plain classes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define TOPICDB_ATTRIBUTE(x) __attribute__((x))
#else
#define TOPICDB_ATTRIBUTE(x)
#endif

#define TOPICDB_CAPABILITY(x) TOPICDB_ATTRIBUTE(capability(x))
#define TOPICDB_SCOPED_CAPABILITY TOPICDB_ATTRIBUTE(scoped_lockable)
#define TOPICDB_GUARDED_BY(x) TOPICDB_ATTRIBUTE(guarded_by(x))
#define TOPICDB_REQUIRES(...) TOPICDB_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TOPICDB_REQUIRES_SHARED(...) TOPICDB_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define TOPICDB_EXCLUDES(...) TOPICDB_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define TOPICDB_ACQUIRE(...) TOPICDB_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TOPICDB_ACQUIRE_SHARED(...) TOPICDB_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define TOPICDB_RELEASE(...) TOPICDB_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TOPICDB_RELEASE_SHARED(...) TOPICDB_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define TOPICDB_RELEASE_GENERIC(...) TOPICDB_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
#define TOPICDB_RETURN_CAPABILITY(x) TOPICDB_ATTRIBUTE(lock_returned(x))
#define TOPICDB_NO_THREAD_SAFETY_ANALYSIS TOPICDB_ATTRIBUTE(no_thread_safety_analysis)

namespace topicdb {

// A std::mutex with annotations. The thread that has locked it must not lock it again.
class TOPICDB_CAPABILITY("mutex") Mutex {
 public:
  void Lock() TOPICDB_ACQUIRE() { mutex_.lock(); }
  void Unlock() TOPICDB_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// A std::shared_mutex with annotations: one writer or several readers hold it at a time.
class TOPICDB_CAPABILITY("shared mutex") SharedMutex {
 public:
  void Lock() TOPICDB_ACQUIRE() { mutex_.lock(); }
  void Unlock() TOPICDB_RELEASE() { mutex_.unlock(); }
  void LockShared() TOPICDB_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void UnlockShared() TOPICDB_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds a mutex as long as it lives. The mutex must outlive it.
class TOPICDB_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TOPICDB_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() TOPICDB_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Lets threads that hold a Mutex wait for a notice. Thread-safe. A wait unlocks the mutex while the
// thread sleeps, and locks it again before it returns. It may end without a notice, so the caller
// must wait in a loop that checks its condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) TOPICDB_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait(held);
    held.release();
  }
  void WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      TOPICDB_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait_until(held, deadline);
    held.release();
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

// Holds a shared mutex alone as long as it lives. The mutex must outlive it.
class TOPICDB_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) TOPICDB_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~WriterLock() TOPICDB_RELEASE() { mutex_.Unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Holds a shared mutex together with other readers as long as it lives. The mutex must outlive it.
class TOPICDB_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) TOPICDB_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.LockShared();
  }
  ~ReaderLock() TOPICDB_RELEASE_GENERIC() { mutex_.UnlockShared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace topicdb
