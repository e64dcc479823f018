// What a Database handle and the scans made from it share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/thread/fork_guard.h"
#include "base/thread/mutex.h"
#include "base/thread/pause_gate.h"
#include "store/database/database_jobs.h"
#include "store/database/database_upkeep.h"
#include "store/database/open_shards.h"
#include "topicdb/types/copies.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// An object that holds views of shards, and must release them before the shards close.
class ViewHolder {
 public:
  ViewHolder() = default;
  virtual ~ViewHolder() = default;
  ViewHolder(const ViewHolder&) = delete;
  ViewHolder& operator=(const ViewHolder&) = delete;
  // Releases the views. REQUIRES: the database's lifecycle() is held, shared or alone.
  virtual void Release() = 0;
};

// kTopic or kInvalidArgument if no message, or no delete, can be like this.
Status CheckMessage(const MessageView& message, std::uint32_t timestamp_bytes, TopicUse use);
Status CheckDelete(const Filter& filter, const TimeRange& range, TopicUse use);

class SubscriptionHub;

// An open database: its shards, its jobs and its upkeep, and who holds views of it. The Database
// handle shares it with the scans, tails and transactions made from the handle. Any thread may call
// it.
//
// Lock rule: every call holds `lifecycle_` shared while it runs, and Close holds it alone. So Close
// waits for running calls, and nobody uses what it releases. Lock order: lifecycle_, the mutexes of
// jobs_ and of upkeep_, the mutex of a scan or transaction, holders_mutex_, the mutex of shards_,
// then the locks of shards. Whoever holds the locks of several shards takes them in the order of
// the shards' numbers.
class DatabaseImpl : public std::enable_shared_from_this<DatabaseImpl> {
 public:
  static Result<std::shared_ptr<DatabaseImpl>> Open(const std::string& path,
                                                    const OpenOptions& options);
  DatabaseImpl(std::shared_ptr<const ShardEnvironment> environment, const OpenOptions& options);

  const ShardEnvironment& environment() const { return *environment_; }
  Durability default_durability() const { return durability_; }
  bool closed() const { return closing_.load(); }
  const ForkGuard& fork_guard() const { return fork_guard_; }
  SharedMutex& lifecycle() const { return lifecycle_; }

  // kForked in a forked child; kClosed if the database is closed. The caller must ask before it
  // takes any lock, and again with lifecycle() held.
  Status CheckUsable() const;

  // REQUIRES (shards, upkeep, Refresh): lifecycle() is held, and CheckUsable() has passed since.
  const OpenShards& shards() const { return shards_; }
  DatabaseUpkeep& upkeep() { return upkeep_; }
  const DatabaseUpkeep& upkeep() const { return upkeep_; }

  // Brings a read-only handle up to date. Scans that run keep the shards they began with.
  Status Refresh();
  // kInvalidArgument if the layout has no commit log.
  Status CheckKeepsLog() const;

  // Scans and transactions register here, so that Close can have them release what belongs to the
  // shards.
  void Register(ViewHolder* holder) TOPICDB_EXCLUDES(holders_mutex_);
  void Unregister(ViewHolder* holder) TOPICDB_EXCLUDES(holders_mutex_);

  // Returns the hub that there is. If there is none, returns what `make` returns, and remembers it
  // for as long as somebody holds it.
  std::shared_ptr<SubscriptionHub> Hub(
      const std::function<std::shared_ptr<SubscriptionHub>()>& make) const
      TOPICDB_EXCLUDES(hub_mutex_);

  Result<SnapshotInfo> MakeSnapshot(const std::string& path, const CopyOptions& options,
                                    const InterruptCheck& interrupted);
  // Whoever commits to several shards enters this gate until all of them have committed.
  PauseGate& commits_gate() const { return commits_gate_; }

  Status Close() TOPICDB_EXCLUDES(lifecycle_);

 private:
  const ForkGuard fork_guard_;
  const std::shared_ptr<const ShardEnvironment> environment_;
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
