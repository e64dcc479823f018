#include "store/database/database_upkeep.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "store/catalog/descriptor.h"
#include "store/view/shard_environment.h"

namespace topicdb {

namespace {

// Returns what users are told of a slab of `view`. Its times are those that the clock would have
// shown then if it had been set as it is now.
SlabInfo InfoOf(const ShardView& view, const SlabView& slab, std::chrono::microseconds leaps) {
  SlabInfo info = slab.slab->Info(view.ClassFilterOf(slab.slab->id()));
  info.read_only = slab.read_only;
  info.created_at = WallTimeOf(slab.slab->record().created_at, leaps);
  if (slab.read_only) info.sealed_at = WallTimeOf(slab.sealed_at, leaps);
  return info;
}

}  // namespace

Status CheckQuotaTrim(double part) {
  if (part >= 0 && part <= 1) return Status::Ok();
  return InvalidArgument("quota_trim: a part of the quota, from 0 to 1, is needed, got " +
                         std::to_string(part));
}

DatabaseUpkeep::DatabaseUpkeep(std::shared_ptr<const ShardEnvironment> environment,
                               const OpenShards& shards, std::atomic<bool>& closing,
                               const OpenOptions& options)
    : environment_(std::move(environment)),
      shards_(shards),
      closing_(closing),
      quota_bytes_(options.quota_bytes),
      quota_trim_(options.quota_trim) {}

Status DatabaseUpkeep::Rotate(const std::optional<std::string>& retention_class, bool resets_clock,
                              std::optional<LayoutKind> layout) {
  if (resets_clock && retention_class.has_value()) {
    return InvalidArgument("a shard has one clock for all classes: rotate all to reset it");
  }
  if (layout.has_value()) {
    TOPICDB_RETURN_IF_ERROR(CheckLayout(*layout, environment_->schema.timestamp_bytes));
  }
  std::optional<RetentionClassId> index;
  if (retention_class.has_value()) {
    TOPICDB_ASSIGN_OR_RETURN(index, environment_->rules()->IndexOf(*retention_class));
  }
  TOPICDB_RETURN_IF_ERROR(shards_.CheckMayChange({Filter::Everything()}).WithContext("rotate"));
  for (const auto& shard : shards_.All()) {
    TOPICDB_RETURN_IF_ERROR(shard->Rotate(index, std::nullopt, resets_clock, layout));
  }
  return Status::Ok();
}

std::vector<SlabInfo> DatabaseUpkeep::Slabs() const {
  std::vector<SlabInfo> slabs;
  for (const ShardMoment& moment : shards_.Moments()) {
    const std::chrono::microseconds leaps = moment.shard->clock().Look().leaps;
    for (const SlabView& slab : moment.view->slabs()) {
      slabs.push_back(InfoOf(*moment.view, slab, leaps));
    }
  }
  return slabs;
}

Status DatabaseUpkeep::DropSlab(std::uint32_t shard, const std::string& retention_class,
                                Generation generation) {
  TOPICDB_ASSIGN_OR_RETURN(const RetentionClassId index,
                           environment_->rules()->IndexOf(retention_class));
  TOPICDB_ASSIGN_OR_RETURN(const auto found, shards_.Find(shard));
  return found->DropSlab(index, generation);
}

Result<Maintenance> DatabaseUpkeep::SetRetention(const std::vector<RetentionClass>& classes,
                                                 bool dry_run) {
  TOPICDB_RETURN_IF_ERROR(shards_.CheckMayWriteAll("set_retention"));
  TOPICDB_RETURN_IF_ERROR(CheckLayouts(classes, environment_->schema.timestamp_bytes));
  const MutexLock lock(mutex_);
  for (;;) {
    TOPICDB_ASSIGN_OR_RETURN(const RetentionRules rules, environment_->rules()->With(classes));
    TOPICDB_ASSIGN_OR_RETURN(Maintenance foreseen, ForeseeWith(rules));
    if (dry_run) return foreseen;
    TOPICDB_RETURN_IF_ERROR(CheckInPlace());  // another database may have the path now
    const Status set = shards_.SetRules(rules);
    if (set.ok()) return foreseen;
    // Another site has changed them meanwhile. The last call counts, as it does in one process.
    if (set.code() != Code::kConflict) return set;
  }
}

Result<Maintenance> DatabaseUpkeep::ForeseeWith(const RetentionRules& rules) const {
  const ClockReading reading = ReadClocks();
  TOPICDB_ASSIGN_OR_RETURN(std::vector<SlabUsage> usage, Usage(reading));
  MaintenanceLimits all = LimitsNow();
  all.open_shards = static_cast<std::uint32_t>(shards_.All().size());  // whoever writes them
  all.may_age = MayAge(reading);
  return Foresee(rules, std::move(usage), all, reading.wall_time);
}

Result<std::vector<SlabUsage>> DatabaseUpkeep::Usage(const ClockReading& now) const {
  std::vector<SlabUsage> slabs;
  for (const ShardMoment& moment : shards_.Moments()) {
    const std::chrono::microseconds leaps = moment.shard->clock().Look(now).leaps;
    for (const SlabView& slab : moment.view->slabs()) {
      SlabUsage& usage = slabs.emplace_back();
      usage.slab = InfoOf(*moment.view, slab, leaps);
      moment.shard->MeasureSlab(*slab.slab, &usage);
    }
  }
  return slabs;
}

Result<std::vector<SlabUsage>> DatabaseUpkeep::WritableUsage(const ClockReading& now) const {
  std::set<std::uint32_t> writable;
  for (const auto& shard : shards_.Writable()) writable.insert(shard->index());
  TOPICDB_ASSIGN_OR_RETURN(std::vector<SlabUsage> usage, Usage(now));
  std::erase_if(usage, [&](const SlabUsage& one) { return !writable.contains(one.slab.id.shard); });
  return usage;
}

std::uint64_t DatabaseUpkeep::DiskBytes() const {
  std::uint64_t bytes = 0;
  for (const auto& shard : shards_.All()) bytes += shard->DiskBytes();
  return bytes;
}

Status DatabaseUpkeep::CheckQuota() const {
  const std::uint64_t quota = quota_bytes_.load(std::memory_order_relaxed);
  if (quota == 0) return Status::Ok();
  const std::uint64_t used = DiskBytes();
  if (used < quota) return Status::Ok();
  return QuotaFault(environment_->database_path + " has " + std::to_string(used) +
                    " bytes, its quota is " + std::to_string(quota) +
                    ": delete or drop something, or raise quota_bytes");
}

QuotaState DatabaseUpkeep::Quota() const {
  return {quota_bytes_.load(), quota_trim_.load(), DiskBytes()};
}

Result<std::vector<DroppedSlab>> DatabaseUpkeep::SetQuota(std::optional<std::uint64_t> quota_bytes,
                                                          std::optional<double> quota_trim,
                                                          bool dry_run) {
  TOPICDB_RETURN_IF_ERROR(CheckQuotaTrim(quota_trim.value_or(0)));
  if (!dry_run) TOPICDB_RETURN_IF_ERROR(shards_.CheckMayWrite());
  const MutexLock lock(mutex_);
  MaintenanceLimits all = LimitsNow();
  all.quota_bytes = quota_bytes.value_or(all.quota_bytes);
  all.quota_trim = quota_trim.value_or(all.quota_trim);
  const ClockReading reading = ReadClocks();
  all.may_age = MayAge(reading);
  TOPICDB_ASSIGN_OR_RETURN(std::vector<SlabUsage> usage, WritableUsage(reading));
  std::vector<DroppedSlab> dropped =
      ForeseeQuota(*environment_->rules(), std::move(usage), ForWritable(all), MeasureDiskBytes(),
                   reading.wall_time);
  if (dry_run) return dropped;
  quota_bytes_.store(all.quota_bytes);
  quota_trim_.store(all.quota_trim);
  return dropped;
}

Status DatabaseUpkeep::CheckInPlace() const {
  for (const auto& shard : shards_.All()) TOPICDB_RETURN_IF_ERROR(shard->CheckInPlace());
  return Status::Ok();
}

Status DatabaseUpkeep::RemoveGarbage(Shard& shard, GarbageScope scope) const {
  return shard.RemoveGarbage(scope, &closing_);
}

bool DatabaseUpkeep::MayAge(const ClockReading& now) const {
  const auto shards = shards_.Writable();
  return std::all_of(shards.begin(), shards.end(),
                     [&](const auto& shard) { return shard->clock().Look(now).may_age; });
}

MaintenanceLimits DatabaseUpkeep::LimitsNow() const {
  return {quota_bytes_.load(), quota_trim_.load(), environment_->schema.shards,
          static_cast<std::uint32_t>(shards_.Writable().size())};
}

MaintenanceLimits DatabaseUpkeep::ForWritable(MaintenanceLimits all) const {
  if (shards_.is_replicated()) all.quota_bytes = all.quota_bytes / all.shards * all.open_shards;
  return all;
}

std::uint64_t DatabaseUpkeep::MeasureDiskBytes() const {
  std::uint64_t bytes = 0;
  for (const auto& shard : shards_.Writable()) bytes += shard->MeasureDiskBytes();
  return bytes;
}

Status DatabaseUpkeep::Drop(const std::vector<SlabUsage>& slabs, const InterruptCheck& interrupted,
                            Maintenance* done) {
  const auto is_to_stop = [&] { return closing_.load() || (interrupted && interrupted()); };
  std::set<SlabId> merged;
  Status status;  // the first that is not OK: what fails in one class is no reason to keep others
  for (const KeepLastMerge& merge : PlanMerges(*environment_->rules(), slabs, &done->dropped)) {
    TOPICDB_ASSIGN_OR_RETURN(const auto shard, shards_.Find(merge.to.shard));
    const Result<std::uint64_t> kept = shard->MergeLast(merge, is_to_stop);
    merged.insert(merge.from.begin(), merge.from.end());
    if (kept.ok()) {
      done->kept += *kept;
      continue;
    }
    // A user has dropped a slab meanwhile, or deleted too much in one. The next run tries again.
    const bool waits =
        kept.status().code() == Code::kNotFound || kept.status().code() == Code::kConflict;
    if (!waits && status.ok()) status = kept.status();
    std::erase_if(done->dropped, [&](const DroppedSlab& dropped) {
      const SlabId& id = dropped.usage.slab.id;
      return std::find(merge.from.begin(), merge.from.end(), id) != merge.from.end();
    });
  }
  for (const DroppedSlab& dropped : done->dropped) {
    const SlabId& id = dropped.usage.slab.id;
    if (merged.contains(id)) continue;
    TOPICDB_ASSIGN_OR_RETURN(const auto shard, shards_.Find(id.shard));
    const Status gone = shard->DropSlab(id.retention_class, id.generation);
    const bool is_fault = !gone.ok() && gone.code() != Code::kNotFound;  // by hand meanwhile
    if (is_fault && status.ok()) status = gone;
  }
  for (const auto& shard : shards_.Writable()) {
    const Status finished = shard->FinishDrops();
    if (status.ok()) status = finished;
  }
  return status;
}

Result<std::vector<SlabInfo>> DatabaseUpkeep::Expire(std::optional<WallTime> as_if,
                                                     const InterruptCheck& interrupted) {
  const MutexLock lock(mutex_);
  const ClockReading reading = ReadClocks();
  const WallTime now = as_if.value_or(reading.wall_time);
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<SlabUsage> usage, WritableUsage(reading));
  MaintenanceLimits all = LimitsNow();
  all.may_age = as_if.has_value() || MayAge(reading);
  all.quota_bytes = 0;  // nothing is asked but ages
  Maintenance done;
  done.dropped = ChooseDropped(*environment_->rules(), usage, all, /*disk_bytes=*/0, now);
  std::erase_if(done.dropped,
                [](const DroppedSlab& slab) { return slab.reason != SlabDropReason::kAge; });
  TOPICDB_RETURN_IF_ERROR(Drop(usage, interrupted, &done));
  std::vector<SlabInfo> slabs;
  for (DroppedSlab& slab : done.dropped) slabs.push_back(std::move(slab.usage.slab));
  return slabs;
}

Result<Maintenance> DatabaseUpkeep::Maintain(std::optional<WallTime> as_if,
                                             const InterruptCheck& interrupted) {
  TOPICDB_ASSIGN_OR_RETURN(Maintenance done, MaintainSlabs(as_if, interrupted));
  // This holds no lock, because large files take long, and garbage has no effect on which slabs
  // there are.
  for (const auto& shard : shards_.All()) {
    if (interrupted && interrupted()) return Interrupted();
    TOPICDB_RETURN_IF_ERROR(RemoveGarbage(*shard, GarbageScope::kSettled));
  }
  return done;
}

Result<Maintenance> DatabaseUpkeep::MaintainSlabs(std::optional<WallTime> as_if,
                                                  const InterruptCheck& interrupted) {
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckInPlace());  // for handles whose commits are never fsynced
  const auto rules = environment_->rules();
  MaintenanceLimits all = ForWritable(LimitsNow());
  // All comparisons use one reading of the clock, because it may leap in between.
  const ClockReading reading = ReadClocks();
  const WallTime now = as_if.value_or(reading.wall_time);
  all.may_age = as_if.has_value() || MayAge(reading);
  for (const auto& shard : shards_.Writable()) TOPICDB_RETURN_IF_ERROR(shard->SaveClock());
  Maintenance done;
  TOPICDB_ASSIGN_OR_RETURN(std::vector<SlabUsage> slabs, WritableUsage(reading));
  for (const SlabUsage& usage : slabs) {
    const SlabId& id = usage.slab.id;
    const RetentionRule* const rule = rules->Find(id.retention_class);
    if (usage.slab.read_only || rule == nullptr) continue;
    const bool is_due = IsRotationDue(rule->limits, usage, all, now) ||
                        (!as_if.has_value() && HasImpossibleBegin(usage, now));
    if (!is_due) continue;
    TOPICDB_ASSIGN_OR_RETURN(const auto shard, shards_.Find(id.shard));
    TOPICDB_RETURN_IF_ERROR(shard->Rotate(id.retention_class, as_if));
    ++done.rotated;
  }
  const bool reclaims = IsOverQuota(all, MeasureDiskBytes());
  if (reclaims) {  // what is there twice goes before anything else does
    for (const auto& shard : shards_.All()) {
      TOPICDB_RETURN_IF_ERROR(shard->FlushMemory());
      TOPICDB_RETURN_IF_ERROR(RemoveGarbage(*shard, GarbageScope::kAll));
    }
  }
  if (done.rotated > 0 || reclaims) {
    TOPICDB_ASSIGN_OR_RETURN(slabs, WritableUsage(reading));
  }
  done.dropped = ChooseDropped(*rules, slabs, all, MeasureDiskBytes(), now);
  TOPICDB_RETURN_IF_ERROR(Drop(slabs, interrupted, &done));
  return done;
}

void DatabaseUpkeep::Start(std::chrono::microseconds interval) {
  if (interval.count() == 0) return;
  janitor_ = std::make_unique<Janitor>(interval, [this] {
    if (closing_.load()) return;
    const WallTime now = ReadWallClock();
    const Result<Maintenance> done = Maintain(std::nullopt, {});
    // Another replica leads now, and maintains the shard.
    const Code code = done.status().code();
    if (code == Code::kNotLeader || code == Code::kUnknownOutcome) return;
    Note(now, done);
  });
}

void DatabaseUpkeep::Note(WallTime now, const Result<Maintenance>& done) {
  const MutexLock lock(stats_mutex_);
  MaintenanceStats& stats = stats_;
  ++stats.runs;
  stats.last_run = now;
  stats.error = done.ok() ? std::string() : done.status().message();
  if (!done.ok()) return;
  stats.rotated += done->rotated;
  stats.kept_messages += done->kept;
  for (const DroppedSlab& dropped : done->dropped) {
    ++stats.dropped_slabs;
    stats.dropped_messages += dropped.usage.slab.messages;
    stats.dropped_bytes += dropped.usage.disk_bytes;
  }
}

MaintenanceStats DatabaseUpkeep::stats() const {
  const MutexLock lock(stats_mutex_);
  return stats_;
}

}  // namespace topicdb
