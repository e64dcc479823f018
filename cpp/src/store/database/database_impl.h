// What a Database handle and the scans made from it share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/thread/fork_guard.h"
#include "base/thread/mutex.h"
#include "base/thread/pause_gate.h"
#include "store/care/janitor.h"
#include "store/catalog/maintenance.h"
#include "store/database/job_views.h"
#include "store/database/job_watcher.h"
#include "store/job/job_files.h"
#include "store/read/stream_plan.h"
#include "store/shard/shard.h"
#include "topicdb/types/copies.h"
#include "topicdb/types/maintenance.h"
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

// An open database: its shards, and the threads that look after them. The Database handle shares it
// with the scans, tails and transactions made from the handle. Any thread may call it.
//
// Lock rule: every call holds `lifecycle_` shared while it runs, and Close holds it alone. So Close
// waits for running calls, and nobody uses what it releases. Lock order: lifecycle_, the mutex of a
// scan or transaction, holders_mutex_, shards_mutex_, then the locks of shards. Whoever holds the
// locks of several shards takes them in the order of the shards' numbers.
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

  // REQUIRES (Shards, FindShard, Moments, WholeMoments, Refresh): lifecycle() is held shared, and
  // CheckUsable() has passed since.
  std::vector<std::shared_ptr<Shard>> Shards() const TOPICDB_EXCLUDES(shards_mutex_);
  // Returns the shard with this number. kReadOnly if the shard is not open here.
  Result<std::shared_ptr<Shard>> FindShard(std::uint32_t index) const;
  // Returns views for readers. They hide a job that some shards have applied and others have not.
  // With the layout skipstream they do not hide it, because what the job has replaced is gone.
  std::vector<ShardMoment> Moments() const;
  // Returns views with everything, for callers that read the log, or what was chosen before.
  std::vector<ShardMoment> WholeMoments() const;
  // Brings a read-only handle up to date.
  Status Refresh() TOPICDB_EXCLUDES(shards_mutex_);

  // kReadOnly if the database was opened read-only.
  Status CheckMayWrite() const;
  // kInvalidArgument if the layout has no commit log.
  Status CheckKeepsLog() const;
  // kQuota if the open shards have reached the quota.
  Status CheckQuota() const;

  // Scans and transactions register here, so that Close can have them release what belongs to the
  // shards.
  void Register(ViewHolder* holder) TOPICDB_EXCLUDES(holders_mutex_);
  void Unregister(ViewHolder* holder) TOPICDB_EXCLUDES(holders_mutex_);

  // Returns the hub that there is. If there is none, returns what `make` returns, and remembers it
  // for as long as somebody holds it.
  std::shared_ptr<SubscriptionHub> Hub(
      const std::function<std::shared_ptr<SubscriptionHub>()>& make) const
      TOPICDB_EXCLUDES(hub_mutex_);

  Result<Maintenance> SetRetention(const std::vector<RetentionClass>& classes, bool dry_run)
      TOPICDB_EXCLUDES(maintenance_mutex_);
  Result<std::vector<SlabUsage>> Usage(const ClockReading& now = ReadClocks()) const;
  // Whether the clocks of all open shards can tell what is old.
  bool MayAge(const ClockReading& now) const;
  Result<std::vector<StructureUsage>> UsageByStructure(const InterruptCheck& interrupted) const;
  Result<std::vector<SlabInfo>> Expire(std::optional<std::int64_t> as_if_us,
                                       const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(maintenance_mutex_);
  Result<Maintenance> Maintain(std::optional<std::int64_t> as_if_us,
                               const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(maintenance_mutex_);
  // Works as Shard::RemoveGarbage does, but ends early when the database is closed.
  Status RemoveGarbage(Shard& shard, GarbageScope scope) {
    return shard.RemoveGarbage(scope, &closing_);
  }
  Result<SnapshotInfo> MakeSnapshot(const std::string& path, const CopyOptions& options,
                                    const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(jobs_mutex_, maintenance_mutex_);
  // Whoever commits to several shards enters this gate until all of them have committed.
  PauseGate& commits_gate() const { return commits_gate_; }
  MaintenanceStats maintenance_stats() const TOPICDB_EXCLUDES(maintenance_stats_mutex_);

  Status Close() TOPICDB_EXCLUDES(lifecycle_);

 private:
  Status OpenShards() TOPICDB_EXCLUDES(shards_mutex_);
  // Opens the shards. Of those that are open already, it opens only the ones whose files have
  // changed since.
  Status OpenChanged() TOPICDB_EXCLUDES(shards_mutex_);
  bool IsUnchanged(std::uint32_t shard, const std::string& files) const
      TOPICDB_EXCLUDES(shards_mutex_);
  // Applies committed jobs, and watches for more from then on. REQUIRES: the database is not
  // read-only.
  Status OpenJobs() TOPICDB_EXCLUDES(jobs_mutex_);
  // Applies committed jobs to the shards that are open here.
  Status ApplyJobs() TOPICDB_EXCLUDES(jobs_mutex_);
  Status ApplyJob(const JobIntent& intent, std::int64_t pending_since_us, Shard* shard)
      TOPICDB_REQUIRES(jobs_mutex_);

  // kReadOnly, naming `call`, unless all shards are open for writing here.
  Status CheckWritesAll(const char* call) const;
  MaintenanceLimits LimitsNow() const;
  std::uint64_t MeasureDiskBytes() const;
  // Drops the slabs in `done`, and keeps those of their messages that keep_last keeps. `slabs` must
  // be all slabs. Removes from `done` what cannot be dropped now.
  Status Drop(const std::vector<SlabUsage>& slabs, const InterruptCheck& interrupted,
              Maintenance* done) TOPICDB_REQUIRES(maintenance_mutex_);
  // Rotates generations, and drops what is too old or too large.
  Result<Maintenance> MaintainSlabs(std::optional<std::int64_t> as_if_us,
                                    const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(maintenance_mutex_);
  void StartJanitor(std::chrono::microseconds interval);
  void Note(std::int64_t now_us, const Result<Maintenance>& done)
      TOPICDB_EXCLUDES(maintenance_stats_mutex_);

  const ForkGuard fork_guard_;
  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::optional<std::vector<std::uint32_t>> only_shards_;
  const Durability durability_;
  const std::uint64_t quota_bytes_;
  const double quota_trim_;
  std::atomic<bool> closing_{false};
  mutable SharedMutex lifecycle_;

  mutable Mutex shards_mutex_;
  std::vector<std::shared_ptr<Shard>> shards_ TOPICDB_GUARDED_BY(shards_mutex_);  // by index
  // The state of each shard's logs and manifest just before it was opened. Only a read-only handle
  // has it.
  std::map<std::uint32_t, std::string> files_ TOPICDB_GUARDED_BY(shards_mutex_);

  mutable PauseGate commits_gate_;  // entered before the commit mutexes of shards are taken

  mutable JobCurtain curtain_;

  Mutex jobs_mutex_;                     // taken before all others except lifecycle_
  std::unique_ptr<JobWatcher> watcher_;  // only Open and Close use it

  Mutex maintenance_mutex_;           // one run at a time; taken before the locks of shards
  std::unique_ptr<Janitor> janitor_;  // only Open and Close use it
  mutable Mutex maintenance_stats_mutex_;
  MaintenanceStats maintenance_stats_ TOPICDB_GUARDED_BY(maintenance_stats_mutex_);

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
