// Looks after the generations of an open database: what is kept, what is rotated and dropped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/thread/mutex.h"
#include "store/care/janitor.h"
#include "store/catalog/maintenance.h"
#include "store/database/open_shards.h"
#include "topicdb/interrupt.h"
#include "topicdb/options.h"
#include "topicdb/types/maintenance.h"
#include "topicdb/types/times.h"

namespace topicdb {

// Returns kInvalidArgument unless quota_trim may be `part`: from 0 to 1.
Status CheckQuotaTrim(double part);

// Applies the retention classes and the quota to the open shards, when somebody asks and from a
// thread of its own. Of shards that are replicas, it looks after those that are written here, as if
// only they were open. A DatabaseImpl owns it. Any thread may call it.
//
// REQUIRES (all methods except Stop, stats and mutex): the shards are open.
class DatabaseUpkeep {
 public:
  // `shards` and `closing` must outlive this object. `closing` becomes true when the database
  // closes; calls that take long then end early.
  DatabaseUpkeep(std::shared_ptr<const ShardEnvironment> environment, const OpenShards& shards,
                 std::atomic<bool>& closing, const OpenOptions& options);

  // Starts the thread, which maintains every `interval`. An interval of 0 starts none.
  void Start(std::chrono::microseconds interval);
  // Ends the thread.
  void Stop() { janitor_.reset(); }
  // Returns what the thread has done.
  MaintenanceStats stats() const TOPICDB_EXCLUDES(stats_mutex_);

  // These do what the methods of Upkeep do. Expire and Maintain do not check whether this handle
  // may write; the caller must.
  Result<Maintenance> SetRetention(const std::vector<RetentionClass>& classes, bool dry_run)
      TOPICDB_EXCLUDES(mutex_);
  QuotaState Quota() const;
  Result<std::vector<DroppedSlab>> SetQuota(std::optional<std::uint64_t> quota_bytes,
                                            std::optional<double> quota_trim, bool dry_run)
      TOPICDB_EXCLUDES(mutex_);
  Status Rotate(const std::optional<std::string>& retention_class, bool resets_clock,
                std::optional<LayoutKind> layout = std::nullopt);
  std::vector<SlabInfo> Slabs() const;
  Result<std::vector<SlabUsage>> Usage(const ClockReading& now = ReadClocks()) const;
  Status DropSlab(std::uint32_t shard, const std::string& retention_class, Generation generation);
  Result<std::vector<SlabInfo>> Expire(std::optional<WallTime> as_if,
                                       const InterruptCheck& interrupted) TOPICDB_EXCLUDES(mutex_);
  Result<Maintenance> Maintain(std::optional<WallTime> as_if, const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(mutex_);

  // Returns kQuota if the open shards have reached the quota.
  Status CheckQuota() const;
  // Works as Shard::RemoveGarbage does, but ends early when the database is closed.
  Status RemoveGarbage(Shard& shard, GarbageScope scope) const;
  // Returns the error of the first open shard whose directory was removed or replaced since it was
  // opened.
  Status CheckInPlace() const;
  // Returns a mutex. While the caller holds it, the retention classes and the generations stay as
  // they are, except for generations that users rotate or drop themselves.
  Mutex& mutex() const TOPICDB_RETURN_CAPABILITY(mutex_) { return mutex_; }

 private:
  // Returns what maintenance would do now if these were the rules.
  Result<Maintenance> ForeseeWith(const RetentionRules& rules) const;
  // Returns whether the clocks of all open shards can tell what is old.
  bool MayAge(const ClockReading& now) const;
  MaintenanceLimits LimitsNow() const;
  // Returns the limits with the part of the quota that the shards have which are written here.
  // Other replicas drop what is too much of the others.
  MaintenanceLimits ForWritable(MaintenanceLimits all) const;
  std::uint64_t DiskBytes() const;  // measured once a second
  std::uint64_t MeasureDiskBytes() const;
  // Returns what Usage does, of the shards that this process may write.
  Result<std::vector<SlabUsage>> WritableUsage(const ClockReading& now) const;
  // Drops the slabs in `done`, and merges the messages that keep_last keeps into new slabs. `slabs`
  // must be all slabs. Removes from `done` the slabs that cannot be merged now. Goes on after an
  // error, and returns the first one.
  Status Drop(const std::vector<SlabUsage>& slabs, const InterruptCheck& interrupted,
              Maintenance* done) TOPICDB_REQUIRES(mutex_);
  // Rotates generations, and drops what is too old or too large.
  Result<Maintenance> MaintainSlabs(std::optional<WallTime> as_if,
                                    const InterruptCheck& interrupted) TOPICDB_EXCLUDES(mutex_);
  // Adds a run of the thread to the statistics.
  void Note(WallTime now, const Result<Maintenance>& done) TOPICDB_EXCLUDES(stats_mutex_);

  const std::shared_ptr<const ShardEnvironment> environment_;
  const OpenShards& shards_;
  std::atomic<bool>& closing_;
  // Both are set with mutex_ held, so they do not change during a run. Any thread may read them.
  std::atomic<std::uint64_t> quota_bytes_;
  std::atomic<double> quota_trim_;
  mutable Mutex mutex_;  // one run at a time; taken before the locks of shards
  mutable Mutex stats_mutex_;
  MaintenanceStats stats_ TOPICDB_GUARDED_BY(stats_mutex_);
  std::unique_ptr<Janitor> janitor_;  // only Start and Stop use it
};

}  // namespace topicdb
