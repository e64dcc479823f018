// Makes the snapshots of a replica, and brings those of others here.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/thread/mutex.h"
#include "replication/raft/raft_site.h"
#include "replication/snapshot/snapshot_manifest.h"
#include "replication/snapshot/snapshot_source.h"

namespace topicdb::replication {

// Does for a replica what the consensus asks for and takes long: it makes a snapshot of the shard,
// which other replicas fetch from it, and it fetches the snapshot of another replica. Tells the
// site when either is done. Beside the directory of the shard it uses two others, with the suffixes
// ".outgoing" and ".incoming", and removes at first what a crash has left in the former. The
// Replica owns it, and it outlives the membership of the replica in its group. Thread-safe.
class SnapshotCarrier {
 public:
  // Makes a source in a directory, or returns why it cannot.
  using MakeSource =
      std::function<Result<std::unique_ptr<SnapshotSource>>(const std::string& directory)>;

  // `site` must outlive it. Its thread calls `make`.
  SnapshotCarrier(RaftSite* site, std::uint64_t group, std::string shard_directory,
                  MakeSource make);
  ~SnapshotCarrier() { Stop(); }
  SnapshotCarrier(const SnapshotCarrier&) = delete;
  SnapshotCarrier& operator=(const SnapshotCarrier&) = delete;

  // Begins to make a snapshot, and hands it to the site. Does not wait.
  void Take() TOPICDB_EXCLUDES(mutex_);
  // Returns true if this snapshot is here. Otherwise begins to fetch it, in the place of any other
  // that is being fetched, and tells the site how that ended. Does not wait. Returns what
  // DecodeManifest returns.
  Result<bool> Fetch(std::string_view manifest) TOPICDB_EXCLUDES(mutex_);
  // Puts the snapshot that is here in the place of the shard, and returns its manifest. Whoever has
  // the shard open keeps the older copy. Returns kNotFound if none is here.
  Result<SnapshotManifest> Install() TOPICDB_EXCLUDES(mutex_);
  // Answers a request of another replica. One that wishes for a snapshot gets kNotFound until there
  // is one, and asks again.
  Result<std::string> Answer(std::string_view request) TOPICDB_EXCLUDES(mutex_);
  // Ends its thread, and removes what others might still fetch. May be repeated.
  void Stop() TOPICDB_EXCLUDES(mutex_);

 private:
  void Work() TOPICDB_EXCLUDES(mutex_);
  void MakeOne() TOPICDB_EXCLUDES(mutex_);
  // Returns the manifest of a snapshot for a replica that wishes for one, or begins to make it.
  Result<std::string> Offer(std::string_view request) TOPICDB_EXCLUDES(mutex_);
  void FetchOne(const SnapshotManifest& manifest) TOPICDB_EXCLUDES(mutex_);
  // Returns whether the snapshot that is being fetched is not wanted any more.
  bool IsFetchVain(const SnapshotManifest& manifest) const TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  const std::uint64_t group_;
  const std::string shard_directory_;
  const MakeSource make_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stops_ TOPICDB_GUARDED_BY(mutex_) = false;
  bool must_make_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::uint64_t made_ TOPICDB_GUARDED_BY(mutex_) = 0;  // how many snapshots, for their directories
  std::optional<SnapshotManifest> wanted_ TOPICDB_GUARDED_BY(mutex_);   // to be fetched
  std::optional<SnapshotManifest> fetched_ TOPICDB_GUARDED_BY(mutex_);  // here
  // The newest ones, the newest last. Somebody may still fetch the one before.
  std::deque<std::shared_ptr<const SnapshotSource>> sources_ TOPICDB_GUARDED_BY(mutex_);
  // When somebody last read of a source.
  mutable std::chrono::steady_clock::time_point read_at_ TOPICDB_GUARDED_BY(mutex_);
  std::thread worker_;  // last
};

}  // namespace topicdb::replication
