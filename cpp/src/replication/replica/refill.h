// Brings the data of a damaged replica from another one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/thread/mutex.h"
#include "replication/raft/raft_site.h"
#include "replication/snapshot/snapshot_manifest.h"

namespace topicdb::replication {

// Asks the other replicas of a group, one after the other, for a snapshot from which the log of
// this one goes on, fetches it into RefillDirectory of the shard, and checks its tables. The log is
// not touched: it has lost nothing, so this replica votes and takes entries meanwhile. The Replica
// owns it, and it outlives the membership of the replica in its group. Thread-safe.
class Refill {
 public:
  // `site` must outlive it. Its thread calls `done` with what it has fetched, once for each Begin.
  Refill(RaftSite* site, std::uint64_t group, const std::string& shard_directory,
         std::function<void(SnapshotManifest)> done);
  ~Refill() { Stop(); }
  Refill(const Refill&) = delete;
  Refill& operator=(const Refill&) = delete;

  // Begins to look for a snapshot. Does not wait. Nothing if it does so already.
  void Begin() TOPICDB_EXCLUDES(mutex_);
  // Looks no more: the consensus has brought one. Does not wait; `done` may still be called.
  void Cancel() TOPICDB_EXCLUDES(mutex_);
  // Ends its thread. May be repeated.
  void Stop() TOPICDB_EXCLUDES(mutex_);

 private:
  void Work() TOPICDB_EXCLUDES(mutex_);
  // Asks each of the other replicas once. Returns the manifest of what was fetched.
  Result<SnapshotManifest> TryAll() TOPICDB_EXCLUDES(mutex_);
  Result<SnapshotManifest> FetchFrom(std::uint64_t replica, std::uint64_t least)
      TOPICDB_EXCLUDES(mutex_);
  // Waits until this replica has the entries up to that of the snapshot in its log, too.
  Status AwaitEntry(std::uint64_t index) TOPICDB_EXCLUDES(mutex_);
  // Waits for a moment. Returns kInterrupted if nobody wants the snapshot any more.
  Status Pause(std::chrono::milliseconds time) TOPICDB_EXCLUDES(mutex_);
  bool IsVain() const TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  const std::uint64_t group_;
  const std::string directory_;
  const std::function<void(SnapshotManifest)> done_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stops_ TOPICDB_GUARDED_BY(mutex_) = false;
  bool is_wanted_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread worker_ TOPICDB_GUARDED_BY(mutex_);  // begins with the first damage
};

}  // namespace topicdb::replication
