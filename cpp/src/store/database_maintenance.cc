// Database: life of the data; generations, retention, trimming.
#include <algorithm>
#include <set>

#include "base/clock.h"
#include "store/catalog/maintenance.h"
#include "store/database/database_impl.h"
#include "topicdb/database.h"

namespace topicdb {

namespace {

// Times are what the clock would have shown then if it had been as it is now.
SlabInfo InfoOf(const SlabView& view, const RetentionRules& rules, std::int64_t leaps_us) {
  SlabInfo info = view.slab->Info(rules.FilterOf(view.slab->id().retention_class));
  info.read_only = view.read_only;
  info.created_at_us += leaps_us;
  if (view.read_only) info.sealed_at_us = view.sealed_at_us + leaps_us;
  return info;
}

}  // namespace

Result<std::vector<RetentionClass>> Database::Retention() const {
  TOPICDB_ENTER(impl_);
  return impl_->environment().rules()->classes();
}

Result<Maintenance> Database::SetRetention(const std::vector<RetentionClass>& classes,
                                           bool dry_run) {
  TOPICDB_ENTER(impl_);
  return impl_->SetRetention(classes, dry_run);
}

Status Database::Rotate(const std::optional<std::string>& retention_class, bool resets_clock) {
  TOPICDB_ENTER(impl_);
  if (resets_clock && retention_class.has_value()) {
    return InvalidArgument("a shard has one clock for all classes: rotate all to reset it");
  }
  std::optional<std::uint32_t> index;
  if (retention_class.has_value()) {
    TOPICDB_ASSIGN_OR_RETURN(index, impl_->environment().rules()->IndexOf(*retention_class));
  }
  for (const auto& shard : impl_->Shards()) {
    TOPICDB_RETURN_IF_ERROR(shard->Rotate(index, std::nullopt, resets_clock));
  }
  return Status::Ok();
}

Result<std::vector<SlabInfo>> Database::Slabs() const {
  TOPICDB_ENTER(impl_);
  const auto rules = impl_->environment().rules();
  std::vector<SlabInfo> slabs;
  for (const ShardMoment& moment : impl_->Moments()) {
    const std::int64_t leaps_us = moment.shard->clock().Look().leaps_us;
    for (const SlabView& view : moment.view->slabs()) {
      slabs.push_back(InfoOf(view, *rules, leaps_us));
    }
  }
  return slabs;
}

Result<std::vector<SlabUsage>> Database::Usage() const {
  TOPICDB_ENTER(impl_);
  return impl_->Usage();
}

Result<std::vector<StructureUsage>> Database::UsageByStructure(
    const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  return impl_->UsageByStructure(interrupted);
}

Status Database::DropSlab(std::uint32_t shard, const std::string& retention_class,
                          std::uint32_t generation) {
  TOPICDB_ENTER(impl_);
  TOPICDB_ASSIGN_OR_RETURN(const std::uint32_t index,
                           impl_->environment().rules()->IndexOf(retention_class));
  TOPICDB_ASSIGN_OR_RETURN(const auto found, impl_->FindShard(shard));
  return found->DropSlab(index, generation);
}

Result<std::vector<SlabInfo>> Database::Expire(std::optional<std::int64_t> as_if_us,
                                               const InterruptCheck& interrupted) {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->CheckMayWrite());
  return impl_->Expire(as_if_us, interrupted);
}

Result<Maintenance> Database::Maintain(std::optional<std::int64_t> as_if_us,
                                       const InterruptCheck& interrupted) {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->CheckMayWrite());
  return impl_->Maintain(as_if_us, interrupted);
}

// Each of the calls in it is one of its own: closing the database waits for that, not for all.
Result<TrimCount> Database::Trim(std::int64_t before_us, const std::optional<Filter>& filter,
                                 bool dry_run, const InterruptCheck& interrupted) {
  TOPICDB_RETURN_IF_ERROR(impl_->CheckMayWrite());
  TrimCount count;
  if (!filter.has_value()) {
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<SlabInfo> slabs, Slabs());
    const auto rules = impl_->environment().rules();
    for (const SlabInfo& slab : slabs) {
      const bool is_old = slab.last_timestamp.has_value() && *slab.last_timestamp < before_us;
      if (!is_old || !slab.read_only || rules->Find(slab.id.retention_class) == nullptr) continue;
      if (!dry_run) {
        TOPICDB_RETURN_IF_ERROR(DropSlab(slab.id.shard, slab.retention_class, slab.id.generation));
      }
      count.slabs.push_back(slab);
    }
  }
  TOPICDB_ASSIGN_OR_RETURN(const Filter all, Filter::Parse("#"));
  const KeyRange rest{filter.value_or(all), {{}, before_us}};
  if (dry_run) {
    TOPICDB_ASSIGN_OR_RETURN(count.messages, Count(rest, count.slabs, interrupted));
  } else {
    TOPICDB_ASSIGN_OR_RETURN(const Receipt receipt, Delete(rest.filter, rest.range));
    count.messages = receipt.count;
  }
  return count;
}

Result<std::uint64_t> Database::Count(const KeyRange& keys, const std::vector<SlabInfo>& without,
                                      const InterruptCheck& interrupted) const {
  SliceOptions options;
  options.range = keys.range;
  TOPICDB_ASSIGN_OR_RETURN(std::vector<Slice> slices, Slices({keys.filter}, options));
  std::erase_if(slices, [&](const Slice& slice) {
    return std::any_of(without.begin(), without.end(),
                       [&](const SlabInfo& slab) { return slab.id == slice.slab; });
  });
  TOPICDB_ASSIGN_OR_RETURN(const auto scan, NewScan({keys.filter}, slices));
  std::uint64_t messages = 0;
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const auto batch, scan->Next(PageLimits(), interrupted));
    if (batch == nullptr) return messages;
    messages += batch->size();
  }
}

Result<Maintenance> DatabaseImpl::SetRetention(const std::vector<RetentionClass>& classes,
                                               bool dry_run) {
  TOPICDB_RETURN_IF_ERROR(CheckWritesAll("set_retention"));
  const std::string& path = environment_->database_path;
  const auto shards = Shards();
  const MutexLock lock(maintenance_mutex_);
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, environment_->rules()->With(classes));
  const ClockReading reading = ReadClocks();
  TOPICDB_ASSIGN_OR_RETURN(std::vector<SlabUsage> usage, Usage(reading));
  MaintenanceLimits all = LimitsNow();
  all.may_age = MayAge(reading);
  Maintenance foreseen = Foresee(rules, std::move(usage), all, reading.wall_us);
  if (dry_run) return foreseen;
  // From here on they hold: shards that do not get so far follow when they are next opened.
  TOPICDB_RETURN_IF_ERROR(StoreRetention(path, rules));
  environment_->retention->Set(std::move(rules));
  for (const auto& shard : shards) {
    TOPICDB_RETURN_IF_ERROR(shard->Adopt(environment_->rules()));
  }
  return foreseen;
}

Result<std::vector<SlabUsage>> DatabaseImpl::Usage(const ClockReading& now) const {
  const auto rules = environment_->rules();
  std::vector<SlabUsage> slabs;
  for (const ShardMoment& moment : Moments()) {
    const std::int64_t leaps_us = moment.shard->clock().Look(now).leaps_us;
    for (const SlabView& view : moment.view->slabs()) {
      SlabUsage& usage = slabs.emplace_back();
      usage.slab = InfoOf(view, *rules, leaps_us);
      moment.shard->MeasureSlab(*view.slab, &usage);
    }
  }
  return slabs;
}

bool DatabaseImpl::MayAge(const ClockReading& now) const {
  const auto shards = Shards();
  return std::all_of(shards.begin(), shards.end(),
                     [&](const auto& shard) { return shard->clock().Look(now).may_age; });
}

MaintenanceLimits DatabaseImpl::LimitsNow() const {
  return {quota_bytes_, quota_trim_, environment_->schema.shards,
          static_cast<std::uint32_t>(Shards().size())};
}

std::uint64_t DatabaseImpl::MeasureDiskBytes() const {
  std::uint64_t bytes = 0;
  for (const auto& shard : Shards()) bytes += shard->MeasureDiskBytes();
  return bytes;
}

Status DatabaseImpl::Drop(const std::vector<SlabUsage>& slabs, const InterruptCheck& interrupted,
                          Maintenance* done) {
  const auto is_to_stop = [&] { return closing_.load() || (interrupted && interrupted()); };
  std::set<SlabId> merged;
  Status status;  // the first that is not OK: what fails in one class is no reason to keep others
  for (const KeepLastMerge& merge : PlanMerges(*environment_->rules(), slabs, &done->dropped)) {
    TOPICDB_ASSIGN_OR_RETURN(const auto shard, FindShard(merge.to.shard));
    const Result<std::uint64_t> kept = shard->MergeLast(merge, is_to_stop);
    merged.insert(merge.from.begin(), merge.from.end());
    if (kept.ok()) {
      done->kept += *kept;
      continue;
    }
    // Dropped by hand meanwhile, or something in it was deleted: the next run sees what is there.
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
    TOPICDB_ASSIGN_OR_RETURN(const auto shard, FindShard(id.shard));
    const Status gone = shard->DropSlab(id.retention_class, id.generation);
    const bool is_fault = !gone.ok() && gone.code() != Code::kNotFound;  // by hand meanwhile
    if (is_fault && status.ok()) status = gone;
  }
  for (const auto& shard : Shards()) {
    const Status finished = shard->FinishDrops();
    if (status.ok()) status = finished;
  }
  return status;
}

Result<std::vector<SlabInfo>> DatabaseImpl::Expire(std::optional<std::int64_t> as_if_us,
                                                   const InterruptCheck& interrupted) {
  const MutexLock lock(maintenance_mutex_);
  const ClockReading reading = ReadClocks();
  const std::int64_t now_us = as_if_us.value_or(reading.wall_us);
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<SlabUsage> usage, Usage(reading));
  MaintenanceLimits all = LimitsNow();
  all.may_age = as_if_us.has_value() || MayAge(reading);
  all.quota_bytes = 0;  // nothing is asked but ages
  Maintenance done;
  done.dropped = ChooseDropped(*environment_->rules(), usage, all, /*disk_bytes=*/0, now_us);
  std::erase_if(done.dropped,
                [](const DroppedSlab& slab) { return slab.reason != SlabDropReason::kAge; });
  TOPICDB_RETURN_IF_ERROR(Drop(usage, interrupted, &done));
  std::vector<SlabInfo> slabs;
  for (DroppedSlab& slab : done.dropped) slabs.push_back(std::move(slab.usage.slab));
  return slabs;
}

Result<Maintenance> DatabaseImpl::Maintain(std::optional<std::int64_t> as_if_us,
                                           const InterruptCheck& interrupted) {
  TOPICDB_ASSIGN_OR_RETURN(Maintenance done, MaintainSlabs(as_if_us, interrupted));
  // Without the lock: large files take their time, and nothing here concerns what slabs there are.
  for (const auto& shard : Shards()) {
    if (interrupted && interrupted()) return Interrupted();
    TOPICDB_RETURN_IF_ERROR(RemoveGarbage(*shard, GarbageScope::kSettled));
  }
  return done;
}

Result<Maintenance> DatabaseImpl::MaintainSlabs(std::optional<std::int64_t> as_if_us,
                                                const InterruptCheck& interrupted) {
  const MutexLock lock(maintenance_mutex_);
  const auto rules = environment_->rules();
  MaintenanceLimits all = LimitsNow();
  // One reading for all that is compared: the clock may leap in between.
  const ClockReading reading = ReadClocks();
  const std::int64_t now_us = as_if_us.value_or(reading.wall_us);
  all.may_age = as_if_us.has_value() || MayAge(reading);
  for (const auto& shard : Shards()) TOPICDB_RETURN_IF_ERROR(shard->SaveClock());
  Maintenance done;
  TOPICDB_ASSIGN_OR_RETURN(std::vector<SlabUsage> slabs, Usage(reading));
  for (const SlabUsage& usage : slabs) {
    const SlabId& id = usage.slab.id;
    const RetentionRule* const rule = rules->Find(id.retention_class);
    if (usage.slab.read_only || rule == nullptr) continue;
    const bool is_due = IsRotationDue(rule->limits, usage, all, now_us) ||
                        (!as_if_us.has_value() && HasImpossibleBegin(usage, now_us));
    if (!is_due) continue;
    TOPICDB_ASSIGN_OR_RETURN(const auto shard, FindShard(id.shard));
    TOPICDB_RETURN_IF_ERROR(shard->Rotate(id.retention_class, as_if_us));
    ++done.rotated;
  }
  const bool reclaims = IsOverQuota(all, MeasureDiskBytes());
  if (reclaims) {  // what is there twice goes before anything else does
    for (const auto& shard : Shards()) {
      TOPICDB_RETURN_IF_ERROR(shard->FlushMemory());
      TOPICDB_RETURN_IF_ERROR(RemoveGarbage(*shard, GarbageScope::kAll));
    }
  }
  if (done.rotated > 0 || reclaims) {
    TOPICDB_ASSIGN_OR_RETURN(slabs, Usage(reading));
  }
  done.dropped = ChooseDropped(*rules, slabs, all, MeasureDiskBytes(), now_us);
  TOPICDB_RETURN_IF_ERROR(Drop(slabs, interrupted, &done));
  return done;
}

void DatabaseImpl::StartJanitor(std::chrono::microseconds interval) {
  if (interval.count() == 0) return;
  janitor_ = std::make_unique<Janitor>(interval, [this] {
    if (!CheckUsable().ok()) return;
    const std::int64_t now_us = SystemClockUs();
    Note(now_us, Maintain(std::nullopt, {}));
  });
}

void DatabaseImpl::Note(std::int64_t now_us, const Result<Maintenance>& done) {
  const MutexLock lock(maintenance_stats_mutex_);
  MaintenanceStats& stats = maintenance_stats_;
  ++stats.runs;
  stats.last_run_us = now_us;
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

MaintenanceStats DatabaseImpl::maintenance_stats() const {
  const MutexLock lock(maintenance_stats_mutex_);
  return maintenance_stats_;
}

}  // namespace topicdb
