// What a replica has of its shard on this site.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file/files.h"
#include "base/thread/mutex.h"
#include "replication/replica/retired_shards.h"
#include "replication/replicated_shard.h"
#include "replication/snapshot/damage_note.h"
#include "store/shard/shard.h"

namespace topicdb::replication {

// Keeps the copy of a shard that a replica has open, its lock, and the older copies that somebody
// still reads. It puts another copy in the place of a damaged or outdated one, and notes damage in
// the directory, so that it is known after a crash. See shard_copies.h for the directories.
//
// The Replica owns it. The thread that applies entries, and the one that opens and closes the
// replica, call its methods, one after the other; any thread may call those that say so.
class ReplicaCopy {
 public:
  // `at_digest` is called when the shard has come to an entry for a digest as it follows.
  ReplicaCopy(std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index,
              std::function<void(const LogPlace&)> at_digest);
  ReplicaCopy(const ReplicaCopy&) = delete;
  ReplicaCopy& operator=(const ReplicaCopy&) = delete;

  // Locks the shard, and opens its copy. Makes one if there is none. Writes to the shard while it
  // follows go to `leader`. Returns the note of damage if the copy is damaged; with `heals`, one
  // that cannot be opened goes to the quarantine, and an empty one is opened in its place. Returns
  // kLocked, and what PrepareCopies and ReplicatedShard::Open return.
  Result<std::optional<DamageNote>> Open(std::shared_ptr<ShardLeader> leader, bool heals)
      TOPICDB_EXCLUDES(mutex_);
  // Returns the shard as the log changes it.
  ReplicatedShard& replicated() { return *replicated_; }
  // Notes that the copy is damaged.
  Status NoteDamage(std::string_view why);
  // Opens the copy that InstallSnapshot has put in the place of this one. It must be the snapshot
  // of the entry `index`. The one before stays until nobody has its shard any more.
  Status TakeSnapshot(std::uint64_t index) TOPICDB_EXCLUDES(mutex_);
  // Puts what a Refill has fetched in the place of this copy, and opens it. This one goes to the
  // quarantine once nobody has its shard any more.
  Status TakeRefill(std::uint64_t index) TOPICDB_EXCLUDES(mutex_);
  // Returns whether there are older copies, and whether nobody has one of them any more.
  bool has_retired() const { return !retired_.empty(); }
  bool MayRemoveRetired() const { return retired_.MayRemove(); }
  // Removes the older copies that nobody has any more.
  void RemoveRetired() { retired_.Remove(/*all=*/false); }
  // Closes all copies, and frees the lock. May be repeated; nothing else may be called afterwards.
  // REQUIRES: nobody uses a shard that it has given out, or holds a view of it
  Status Close() TOPICDB_EXCLUDES(mutex_);

  // Returns the shard as it is now. Any thread may call it.
  std::shared_ptr<Shard> shard() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return given_;
  }
  // Waits until the shard is as `is_wanted` asks, and returns it, or null if that takes longer than
  // `patience` or `is_over` says that nothing more comes. Any thread may call it.
  std::shared_ptr<Shard> Await(const std::function<bool(const Shard&)>& is_wanted,
                               std::chrono::milliseconds patience,
                               const std::function<bool()>& is_over) const TOPICDB_EXCLUDES(mutex_);
  // Returns whether some leader has made the shard, as it is in memory. Any thread may call it.
  bool IsMade() const TOPICDB_EXCLUDES(mutex_) { return !shard()->view()->slabs().empty(); }
  // Calls `replace` with the shard, and again with each copy that takes its place. It must only
  // store the shard: it is called with mutex_ held. Any thread may call this.
  void Watch(std::function<void(std::shared_ptr<Shard>)> replace) TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    replace_ = std::move(replace);
    replace_(given_);
  }

 private:
  // Finishes what a crash has left, and returns the note of damage that is still there.
  Result<std::optional<DamageNote>> Prepare();
  // Opens the copy in directory_.
  Status OpenCopy();
  // Moves a copy that cannot be opened to the quarantine, and opens an empty one in its place.
  Status OpenEmpty(std::string_view why);
  // Gives out the shard of replicated_ from now on.
  void GiveOut() TOPICDB_EXCLUDES(mutex_);

  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::uint32_t index_;
  const std::string shard_directory_;  // a link to the directory of the copy
  const std::function<void(const LogPlace&)> at_digest_;

  std::shared_ptr<ShardLeader> leader_;
  std::unique_ptr<FileLock> lock_;  // of the shard
  std::unique_ptr<ReplicatedShard> replicated_;
  std::string directory_;  // of replicated_
  RetiredShards retired_;

  mutable Mutex mutex_;  // comes last, but for what whoever watches locks
  // The shard of replicated_, as it is given out: with a count of its own, which tells when nobody
  // has it any more.
  std::shared_ptr<Shard> given_ TOPICDB_GUARDED_BY(mutex_);
  std::function<void(std::shared_ptr<Shard>)> replace_ TOPICDB_GUARDED_BY(mutex_);  // or empty
};

}  // namespace topicdb::replication
