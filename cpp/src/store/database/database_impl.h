// An open database, which the Database handle and the scans made from it share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "base/thread/fork_guard.h"
#include "base/thread/mutex.h"
#include "base/thread/pause_gate.h"
#include "store/database/database_jobs.h"
#include "store/database/database_upkeep.h"
#include "store/database/open_shards.h"
#include "topicdb/database/upload.h"
#include "topicdb/types/copies.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// An object that holds views of shards, and must release them before the shards close. It registers
// with the DatabaseImpl, which calls Release when it closes.
class ViewHolder {
 public:
  ViewHolder() = default;
  virtual ~ViewHolder() = default;
  ViewHolder(const ViewHolder&) = delete;
  ViewHolder& operator=(const ViewHolder&) = delete;
  // Releases the views. REQUIRES (Release): the caller holds the database's lifecycle(), shared or
  // alone
  virtual void Release() = 0;
};

// Return kTopic or kInvalidArgument if no message, or no delete, can be like this.
Status CheckMessage(const MessageView& message, std::uint32_t timestamp_bytes, TopicUse use);
Status CheckDelete(const Filter& filter, const TimeRange& range, TopicUse use);

class DatabaseCopy;
class SubscriptionHub;

// Holds what an open database consists of: its shards, its jobs and its upkeep. Knows the objects
// that hold views of the shards. The Database handle shares it with the scans, tails and
// transactions that were made from the handle. Any thread may call it.
//
// Lock rule: every call holds `lifecycle_` shared while it runs, and Close holds it alone. So Close
// waits for running calls, and nobody uses what it releases. Lock order: lifecycle_, the mutexes of
// jobs_ and of upkeep_, the mutex of a scan or transaction, holders_mutex_, the mutexes of shards_,
// then the locks of shards. Whoever holds the locks of several shards takes them in the order of
// the shards' numbers.
class DatabaseImpl : public std::enable_shared_from_this<DatabaseImpl> {
 public:
  // Does what Database::Open does. The database has its shards from what `make` makes, or from
  // LocalShards if that is empty.
  static Result<std::shared_ptr<DatabaseImpl>> Open(const std::string& path,
                                                    const OpenOptions& options,
                                                    const MakeShardSource& make = {});
  // Does what Database::OpenUpload does.
  static Result<std::shared_ptr<DatabaseImpl>> OpenUpload(const Upload& upload,
                                                          OpenOptions options);
  DatabaseImpl(std::shared_ptr<const ShardEnvironment> environment,
               std::unique_ptr<ShardSource> source, const OpenOptions& options);

  const ShardEnvironment& environment() const { return *environment_; }
  // Returns what a commit survives that asks for this, or for nothing.
  Durability DurabilityOf(std::optional<Durability> asked) const {
    return shards_.is_replicated() ? Durability::kQuorum : asked.value_or(durability_);
  }
  bool closed() const { return closing_.load(); }
  const ForkGuard& fork_guard() const { return fork_guard_; }
  SharedMutex& lifecycle() const { return lifecycle_; }

  // Returns kForked in a forked child, and kClosed if the database is closed. The caller must call
  // this before it takes any lock, and again once it holds lifecycle(); see TOPICDB_ENTER.
  Status CheckUsable() const;

  // REQUIRES (shards, upkeep, Refresh): the caller holds lifecycle(), and CheckUsable() has
  // returned OK since
  const OpenShards& shards() const { return shards_; }
  DatabaseUpkeep& upkeep() { return upkeep_; }
  const DatabaseUpkeep& upkeep() const { return upkeep_; }

  // Brings a read-only handle up to date. Scans that run keep the shards they began with.
  Status Refresh();
  // Returns kNotFound unless `asked` is this database. The error names `what` was asked with.
  Status CheckIsHere(const DatabaseId& asked, const char* what) const;

  // Scans and transactions register here, so that Close can have them release what belongs to the
  // shards.
  void Register(ViewHolder* holder) TOPICDB_EXCLUDES(holders_mutex_);
  void Unregister(ViewHolder* holder) TOPICDB_EXCLUDES(holders_mutex_);

  // Returns the hub of the subscriptions, which the callers share. Makes it with `make` if nobody
  // holds one, or if the one that there is is `unfit`. The caller must hold that one until it has
  // left lifecycle(), since a hub that ends takes that lock.
  std::shared_ptr<SubscriptionHub> Hub(
      const std::function<std::shared_ptr<SubscriptionHub>()>& make,
      const SubscriptionHub* unfit = nullptr) const TOPICDB_EXCLUDES(hub_mutex_);

  // Adds the shards to a copy if they are replicas, each as it is at a moment of its own.
  Result<SnapshotInfo> CopyReplicas(DatabaseCopy* copy) const;
  // Does what Database::MakeSnapshot does.
  Result<SnapshotInfo> MakeSnapshot(const std::string& path, const CopyOptions& options,
                                    const InterruptCheck& interrupted);
  // Returns the gate that whoever commits to several shards must be in until all of them have
  // committed. A snapshot closes it for its moment.
  PauseGate& commits_gate() const { return commits_gate_; }

  // Does what Database::Close does. Returns the first error of the shards, and closes all of them
  // in any case.
  Status Close() TOPICDB_EXCLUDES(lifecycle_);

 private:
  const ForkGuard fork_guard_;
  const std::shared_ptr<const ShardEnvironment> environment_;
  std::unique_ptr<SharedFileLock> hold_;  // Open takes it, and Close gives it back; may be null
  const Durability durability_;
  std::atomic<bool> closing_{false};
  mutable SharedMutex lifecycle_;

  mutable PauseGate commits_gate_;  // entered before the commit mutexes of shards are taken
  OpenShards shards_;
  DatabaseJobs jobs_;
  DatabaseUpkeep upkeep_;

  mutable Mutex hub_mutex_;  // taken before holders_mutex_
  mutable std::weak_ptr<SubscriptionHub> hub_ TOPICDB_GUARDED_BY(hub_mutex_);

  Mutex holders_mutex_;
  std::set<ViewHolder*> holders_ TOPICDB_GUARDED_BY(holders_mutex_);
};

// Returns from the enclosing function with an error unless the handle is usable. Keeps the handle
// usable until the function ends.
#define TOPICDB_ENTER(impl)                       \
  TOPICDB_RETURN_IF_ERROR((impl)->CheckUsable()); \
  const ReaderLock in_use((impl)->lifecycle());   \
  TOPICDB_RETURN_IF_ERROR((impl)->CheckUsable())

}  // namespace topicdb
