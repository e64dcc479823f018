// Heals a replica whose RocksDB is damaged.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/thread/mutex.h"
#include "replication/replica/refill.h"

namespace topicdb::replication {

// Knows whether a replica is damaged, is to be healed, or is being healed, and fetches for it the
// data of another replica. The Replica owns it, asks it, and puts what was fetched in the place of
// its copy. Thread-safe.
class Healer {
 public:
  // With `is_automatic` it begins without being asked. `site` must outlive it. `changed` is called
  // when what was fetched is here, by a thread that holds nothing.
  Healer(RaftSite* site, std::uint64_t group, const std::string& shard_directory, bool is_automatic,
         std::function<void()> changed);

  // Returns why the replica is being healed, or Ok.
  Status damage() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return damage_;
  }
  // Returns whether the replica may be healed, without being asked, if it fails because of this.
  bool MayHeal(const Status& why) const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return is_automatic_ && heals_left_ > 0 && why.code() == Code::kCorruption;
  }
  // Has the replica be healed because of this, unless it is so already.
  void Ask(const Status& why) TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (damage_.ok()) asked_ = why;
  }
  bool is_asked() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return !asked_.ok();
  }
  // Returns why it was asked to heal, which it forgets, or Ok.
  Status TakeAsked() TOPICDB_EXCLUDES(mutex_);
  // From now on the replica is being healed.
  void Begin(const Status& why) TOPICDB_EXCLUDES(mutex_);
  // Begins to fetch. Does not wait. REQUIRES: the replica is in its group
  void Fetch() { refill_.Begin(); }
  bool has_fetched() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return fetched_.has_value();
  }
  // Returns the index of the last entry in what was fetched, which RefillDirectory has, and forgets
  // it.
  std::optional<std::uint64_t> TakeFetched() TOPICDB_EXCLUDES(mutex_);
  // The replica is whole. Fetches no more, and forgets what it has fetched.
  void End() TOPICDB_EXCLUDES(mutex_);
  // Ends its thread. May be repeated.
  void Stop() { refill_.Stop(); }

 private:
  // After this many times in the life of the process healing does not help.
  static constexpr int kHealsMax = 3;

  const bool is_automatic_;

  mutable Mutex mutex_;  // nobody takes another one while holding it
  Status damage_ TOPICDB_GUARDED_BY(mutex_);
  Status asked_ TOPICDB_GUARDED_BY(mutex_);
  int heals_left_ TOPICDB_GUARDED_BY(mutex_) = kHealsMax;
  std::optional<std::uint64_t> fetched_ TOPICDB_GUARDED_BY(mutex_);

  Refill refill_;
};

}  // namespace topicdb::replication
