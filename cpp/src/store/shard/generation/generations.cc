#include "store/shard/generation/generations.h"

#include <algorithm>
#include <array>

#include "rocks/rocks_compat.h"

namespace topicdb {

Status Generations::Rotate(std::optional<RetentionClassId> retention_class,
                           std::optional<WallTime> as_if, bool resets_clock) {
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  std::vector<RetentionClassId> classes;
  if (retention_class.has_value()) {
    if (!shard_.HasCurrentSlab(*retention_class)) return Status::Ok();
    classes.push_back(*retention_class);
  } else {
    for (const RetentionRule& rule : shard_.rules->live()) classes.push_back(rule.id);
  }
  return RotateClasses(classes, as_if, resets_clock);
}

Status Generations::Adopt(std::shared_ptr<const RetentionRules> rules) {
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  const auto before = std::exchange(shard_.rules, std::move(rules));
  std::vector<RetentionClassId> classes = shard_.rules->ChangedSince(*before);
  for (const RetentionClassId id : before->ids()) {
    // The generations of the class have left no number free so far.
    if (maker_.KeepsLast(id) && before->Find(id)->limits.keep_last == 0) classes.push_back(id);
  }
  const Status status = BeginAnew(std::move(classes));
  if (!status.ok()) shard_.rules = before;
  return status;
}

Status Generations::BeginAnew(std::vector<RetentionClassId> classes) {
  std::vector<RetentionClassId> begin_again;
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  std::erase_if(classes, [&](RetentionClassId id) TOPICDB_REQUIRES(shard_.mutex) {
    if (!shard_.HasCurrentSlab(id)) return true;  // MissingClasses has it
    const Slab& slab = *shard_.CurrentSlab(id)->slab;
    if (slab.CountersForCommit().messages > 0) return false;
    if (slab.begun_at() != shard_.commit.serial) begin_again.push_back(id);
    return true;
  });
  for (const RetentionClassId id : MissingClasses()) classes.push_back(id);
  return RotateClasses(classes, std::nullopt, /*resets_clock=*/false, begin_again);
}

Status Generations::EnsureReserved() {
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  const RetentionClassId reserved = shard_.rules->reserved();
  if (shard_.CurrentSlab(reserved)->slab != nullptr) return Status::Ok();
  return RotateClasses(std::array{reserved});
}

std::vector<RetentionClassId> Generations::MissingClasses() const {
  std::vector<RetentionClassId> missing = shard_.rules->ids();
  for (const SlabView& view : *shard_.slabs) std::erase(missing, view.slab->id().retention_class);
  return missing;
}

Status Generations::EndGeneration(NotedTime sealed_at, SlabView* view,
                                  rocksdb::WriteBatch* batch) const {
  meta::SlabRecord record = view->slab->record();
  view->read_only = true;
  view->sealed_at = record.sealed_at = sealed_at;
  record.state = meta::SlabState::kReadOnly;
  return rocks::FromRocks(batch->Put(meta::SlabKey(view->slab->id()), meta::Encode(record)),
                          "sealing " + shard_.Name());
}

// If a column family was made here and its record was not written, the next opening drops it.
Status Generations::RotateClasses(std::span<const RetentionClassId> classes,
                                  std::optional<WallTime> as_if, bool resets_clock,
                                  std::span<const RetentionClassId> begin_again) {
  const LeapClock::Times times = shard_.clock.Look();
  const NotedTime now = as_if.has_value() ? NotedTimeOf(*as_if, times.leaps) : times.Noted();
  rocksdb::WriteBatch batch;
  auto slabs = shard_.slabs ? *shard_.slabs : std::vector<SlabView>();
  std::vector<SlabId> ids;
  std::vector<const Slab*> before;
  std::vector<NotedTime> began;
  for (const RetentionClassId retention_class : classes) {
    ids.push_back({shard_.index, retention_class, Generation{1}});
    before.push_back(nullptr);
    began.push_back(now);
    for (SlabView& view : slabs) {
      if (view.read_only || view.slab->id().retention_class != retention_class) continue;
      before.back() = view.slab.get();
      ids.back().generation =
          view.slab->id().generation.Next(maker_.GenerationStep(retention_class));
      // A caller that tries out an earlier time must not end a generation before it began.
      if (as_if.has_value()) {
        began.back() = std::max(now, view.slab->record().created_at);
      }
      TOPICDB_RETURN_IF_ERROR(EndGeneration(began.back(), &view, &batch));
    }
  }
  const std::size_t ahead = shard_.SlabsAtOnce() / std::max<std::size_t>(ids.size(), 1);
  TOPICDB_ASSIGN_OR_RETURN(FamiliesByName families, maker_.MakeFamilies(ids, ahead));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    meta::SlabRecord record = shard_.environment->NewSlabRecord(ids[i], began[i]);
    record.begun_at = shard_.commit.serial;
    TOPICDB_ASSIGN_OR_RETURN(auto slab, maker_.Make(ids[i], record, before[i], &families, &batch));
    slabs.insert(PlaceOf(ids[i], slabs), {std::move(slab), false, NotedTime()});
  }
  meta::CommitState after = shard_.commit;
  rocksdb::Status status = batch.Put(meta::RulesKey(), meta::EncodeRules(shard_.rules->version()));
  if (resets_clock && status.ok()) {
    after.assigned_timestamp = meta::CommitState().assigned_timestamp;
    status = batch.Put(meta::CommitStateKey(), meta::Encode(after));
  }
  for (const RetentionClassId id : begin_again) {
    const Slab& slab = *shard_.CurrentSlab(id)->slab;
    meta::SlabRecord record = slab.record();
    record.begun_at = shard_.commit.serial;
    if (status.ok()) status = batch.Put(meta::SlabKey(slab.id()), meta::Encode(record));
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "rotating " + shard_.Name()));
  TOPICDB_ASSIGN_OR_RETURN(const auto saved, shard_.PutClock(&batch));
  TOPICDB_RETURN_IF_ERROR(
      shard_.Write({rocks::EntryKind::kGeneration, rocks::EntryDurability::kDisk}, &batch));
  if (saved.has_value()) shard_.clock.NoteSaved(*saved);
  shard_.commit = after;
  for (const RetentionClassId id : begin_again)
    shard_.CurrentSlab(id)->slab->BeginAgain(shard_.commit.serial);
  shard_.topics.Clear();
  shard_.Publish(std::make_shared<const std::vector<SlabView>>(std::move(slabs)), shard_.deletes);
  sealing_.Wake();
  return Status::Ok();
}

}  // namespace topicdb
