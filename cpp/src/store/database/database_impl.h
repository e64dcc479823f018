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
#include "store/job/job_files.h"
#include "store/database/job_views.h"
#include "store/database/job_watcher.h"
#include "store/catalog/maintenance.h"
#include "store/shard/shard.h"
#include "store/read/stream_plan.h"
#include "topicdb/types/copies.h"
#include "topicdb/types/maintenance.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// What holds views of shards and must give them back before the shards close.
class ViewHolder {
 public:
  ViewHolder() = default;
  virtual ~ViewHolder() = default;
  ViewHolder(const ViewHolder&) = delete;
  ViewHolder& operator=(const ViewHolder&) = delete;
  // REQUIRES: the database's lifecycle() is held, shared or alone.
  virtual void Release() = 0;
};

// kTopic, kInvalidArgument: what no message, or no delete, can be.
Status CheckMessage(const MessageView& message, std::uint32_t timestamp_bytes, TopicUse use);
Status CheckDelete(const Filter& filter, const TimeRange& range, TopicUse use);

class SubscriptionHub;

// Lock rule: every call holds `lifecycle_` shared while it runs, Close holds it alone: so closing
// waits for calls in flight, and what Close releases is in nobody's hands. Lock order: lifecycle_,
// the mutex of a scan or transaction, holders_mutex_, shards_mutex_, then the shard's; where those
// of several shards are held, in the order of their numbers.
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

  // To be asked before any lock is taken, and again with lifecycle() held.
  Status CheckUsable() const;

  // All of these: REQUIRES lifecycle() held shared and CheckUsable() passed since.
  std::vector<std::shared_ptr<Shard>> Shards() const TOPICDB_EXCLUDES(shards_mutex_);
  // kReadOnly if the shard is not open here.
  Result<std::shared_ptr<Shard>> FindShard(std::uint32_t index) const;
  // For readers: a job that some shards have applied and others have not is hidden. With the layout
  // skipstream it is not, since what it has replaced is gone.
  std::vector<ShardMoment> Moments() const;
  // For those that follow the log, or read what was chosen before: with everything.
  std::vector<ShardMoment> WholeMoments() const;
  Status Refresh() TOPICDB_EXCLUDES(shards_mutex_);

  // kReadOnly
  Status CheckMayWrite() const;
  // kInvalidArgument: the layout has no commit log.
  Status CheckKeepsLog() const;
  // kQuota if the open shards have reached it.
  Status CheckQuota() const;

  // Scans and transactions are known here, so that Close can take from them what belongs to the
  // shards.
  void Register(ViewHolder* holder) TOPICDB_EXCLUDES(holders_mutex_);
  void Unregister(ViewHolder* holder) TOPICDB_EXCLUDES(holders_mutex_);

  // The one that there is; else what `make` gives, for as long as somebody has it.
  std::shared_ptr<SubscriptionHub> Hub(
      const std::function<std::shared_ptr<SubscriptionHub>()>& make) const
      TOPICDB_EXCLUDES(hub_mutex_);

  Result<Maintenance> SetRetention(const std::vector<RetentionClass>& classes, bool dry_run)
      TOPICDB_EXCLUDES(maintenance_mutex_);
  Result<std::vector<SlabUsage>> Usage(const ClockReading& now = ReadClocks()) const;
  // By the clocks of all open shards: whether it can be told what is old.
  bool MayAge(const ClockReading& now) const;
  Result<std::vector<StructureUsage>> UsageByStructure(const InterruptCheck& interrupted) const;
  Result<std::vector<SlabInfo>> Expire(std::optional<std::int64_t> as_if_us,
                                       const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(maintenance_mutex_);
  Result<Maintenance> Maintain(std::optional<std::int64_t> as_if_us,
                               const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(maintenance_mutex_);
  // As Shard::RemoveGarbage; ends early when the database is closed.
  Status RemoveGarbage(Shard& shard, GarbageScope scope) {
    return shard.RemoveGarbage(scope, &closing_);
  }
  Result<SnapshotInfo> MakeSnapshot(const std::string& path, const CopyOptions& options,
                                    const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(jobs_mutex_, maintenance_mutex_);
  // Entered by what commits to several shards, until it has in all of them.
  PauseGate& commits_gate() const { return commits_gate_; }
  MaintenanceStats maintenance_stats() const TOPICDB_EXCLUDES(maintenance_stats_mutex_);

  Status Close() TOPICDB_EXCLUDES(lifecycle_);

 private:
  Status OpenShards() TOPICDB_EXCLUDES(shards_mutex_);
  // Opens the shards; of those that it has, only the ones with other files than then.
  Status OpenChanged() TOPICDB_EXCLUDES(shards_mutex_);
  bool IsUnchanged(std::uint32_t shard, const std::string& files) const
      TOPICDB_EXCLUDES(shards_mutex_);
  // Applies what jobs have committed, and looks for more from then on. REQUIRES: not read-only
  Status OpenJobs() TOPICDB_EXCLUDES(jobs_mutex_);
  // Applies committed jobs to the shards that are open here.
  Status ApplyJobs() TOPICDB_EXCLUDES(jobs_mutex_);
  Status ApplyJob(const JobIntent& intent, std::int64_t pending_since_us, Shard* shard)
      TOPICDB_REQUIRES(jobs_mutex_);

  // kReadOnly, naming the call, unless all shards are open for writing here.
  Status CheckWritesAll(const char* call) const;
  MaintenanceLimits LimitsNow() const;
  std::uint64_t MeasureDiskBytes() const;
  // Drops what `done` says, and keeps of it what keep_last says. slabs: all there are. What cannot
  // go now is taken out of `done`.
  Status Drop(const std::vector<SlabUsage>& slabs, const InterruptCheck& interrupted,
              Maintenance* done) TOPICDB_REQUIRES(maintenance_mutex_);
  // Rotates, and drops what is too old or too much.
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
  // What their logs and manifests were just before they were opened; of a read-only handle.
  std::map<std::uint32_t, std::string> files_ TOPICDB_GUARDED_BY(shards_mutex_);

  mutable PauseGate commits_gate_;  // before the commit mutexes of shards

  mutable JobCurtain curtain_;

  Mutex jobs_mutex_;                     // before all others but lifecycle_
  std::unique_ptr<JobWatcher> watcher_;  // of Open and Close

  Mutex maintenance_mutex_;           // one at a time; before those of shards
  std::unique_ptr<Janitor> janitor_;  // of Open and Close
  mutable Mutex maintenance_stats_mutex_;
  MaintenanceStats maintenance_stats_ TOPICDB_GUARDED_BY(maintenance_stats_mutex_);

  mutable Mutex hub_mutex_;  // before holders_mutex_
  mutable std::weak_ptr<SubscriptionHub> hub_ TOPICDB_GUARDED_BY(hub_mutex_);

  Mutex holders_mutex_;
  std::set<ViewHolder*> holders_ TOPICDB_GUARDED_BY(holders_mutex_);
};

// Leaves the enclosing function unless the handle is usable; keeps it so until the function ends.
#define TOPICDB_ENTER(impl)                       \
  TOPICDB_RETURN_IF_ERROR((impl)->CheckUsable()); \
  const ReaderLock in_use((impl)->lifecycle());   \
  TOPICDB_RETURN_IF_ERROR((impl)->CheckUsable())

}  // namespace topicdb
