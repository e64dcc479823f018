// Makes the digests of a replica, beside its other work.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/thread/mutex.h"
#include "replication/digest/replica_digest.h"
#include "store/shard/shard.h"

namespace topicdb::replication {

// Keeps what a shard has after an entry, and reads all of it in a thread of its own, which lets
// others go first. Remembers the newest digests. The Replica owns it. Thread-safe.
//
// Lock rule: mutex_ comes last. Nothing of a shard is called with it held.
class Digester {
 public:
  // `damaged` is called, by its thread, if the shard cannot be read.
  explicit Digester(std::function<void(const Status&)> damaged);
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  // Begins to make the digest of what the shard has now, which is what it has after the entry at
  // `place`. Does not wait. Of digests that nobody has begun to make, only the newest is made.
  // REQUIRES (Take): nobody writes to the RocksDB of the shard meanwhile
  void Take(const LogPlace& place, std::shared_ptr<Shard> shard) TOPICDB_EXCLUDES(mutex_);
  // Returns the digest at a place, kStale while it is being made, why it cannot be made, or
  // kNotFound if nobody has asked for it, or for newer ones since.
  Result<ReplicaDigest> Find(const LogPlace& place) const TOPICDB_EXCLUDES(mutex_);
  // Ends its thread, and gives up what it reads. May be repeated. Nothing is made afterwards.
  void Stop() TOPICDB_EXCLUDES(mutex_);

 private:
  // What a shard has after an entry.
  struct Moment;
  struct Made {
    LogPlace place;
    Status status;  // kStale while the digest is being made
    ReplicaDigest digest;
  };

  void Work() TOPICDB_EXCLUDES(mutex_);
  Result<ReplicaDigest> Read(const Moment& moment) const;

  const std::function<void(const Status&)> damaged_;
  std::atomic<bool> stops_{false};

  mutable Mutex mutex_;
  CondVar changed_;
  std::unique_ptr<Moment> next_ TOPICDB_GUARDED_BY(mutex_);
  std::deque<Made> made_ TOPICDB_GUARDED_BY(mutex_);  // the newest last
  std::thread worker_ TOPICDB_GUARDED_BY(mutex_);     // begins with the first digest
};

}  // namespace topicdb::replication
