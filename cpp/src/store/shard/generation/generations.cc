#include "store/shard/generation/generations.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rocks/rocks_compat.h"
#include "store/shard/state/record_reader.h"

namespace topicdb {

Status Generations::Rotate(std::optional<RetentionClassId> retention_class,
                           std::optional<WallTime> as_if, bool resets_clock,
                           std::optional<LayoutKind> layout) {
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  std::vector<RetentionClassId> classes;
  if (retention_class.has_value()) {
    if (!shard_.HasCurrentSlab(*retention_class)) return Status::Ok();
    classes.push_back(*retention_class);
  } else {
    for (const RetentionRule& rule : shard_.rules->live()) classes.push_back(rule.id);
  }
  return RotateClasses(classes, {as_if, resets_clock, layout, {}});
}

Status Generations::Adopt(std::shared_ptr<const RetentionRules> rules) {
  const MutexLock lock(shard_.mutex);
  if (rules->version() <= shard_.rules->version()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  const auto before = std::exchange(shard_.rules, std::move(rules));
  std::vector<RetentionClassId> classes = shard_.rules->ChangedSince(*before);
  for (const RetentionClassId id : before->ids()) {
    // The generations of the class have left no number free so far.
    if (maker_.KeepsLast(id) && before->Find(id)->limits.keep_last == 0) classes.push_back(id);
    const bool has_slab = shard_.HasCurrentSlab(id);
    if (has_slab && !HasItsLayout(*shard_.CurrentSlab(id)->slab)) classes.push_back(id);
  }
  const Status status = BeginAnew(std::move(classes));
  if (!status.ok()) shard_.rules = before;
  return status;
}

Status Generations::BeginAnew(std::vector<RetentionClassId> classes) {
  Rotation rotation;
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  std::erase_if(classes, [&](RetentionClassId id) TOPICDB_REQUIRES(shard_.mutex) {
    if (!shard_.HasCurrentSlab(id)) return true;  // MissingClasses has it
    const Slab& slab = *shard_.CurrentSlab(id)->slab;
    if (slab.CountersForCommit().messages > 0 || !HasItsLayout(slab)) return false;
    if (slab.begun_at() != shard_.commit.serial) rotation.begin_again.push_back(id);
    return true;
  });
  for (const RetentionClassId id : MissingClasses()) classes.push_back(id);
  return RotateClasses(classes, rotation);
}

Status Generations::EnsureReserved() {
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  const RetentionClassId reserved = shard_.rules->reserved();
  if (shard_.CurrentSlab(reserved)->slab != nullptr) return Status::Ok();
  return RotateClasses(std::array{reserved}, {});
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

Result<std::vector<Generations::Next>> Generations::EndCurrent(
    std::span<const RetentionClassId> classes, const Rotation& rotation,
    std::vector<SlabView>* slabs, rocksdb::WriteBatch* batch) const {
  const LeapClock::Times times = shard_.clock.Look();
  const NotedTime now =
      rotation.as_if.has_value() ? NotedTimeOf(*rotation.as_if, times.leaps) : times.Noted();
  std::vector<Next> begin;
  for (const RetentionClassId retention_class : classes) {
    Next next{{{shard_.index, retention_class, Generation{1}}, LayoutKind::kColumnar}, now};
    for (SlabView& view : *slabs) {
      if (view.read_only || view.slab->id().retention_class != retention_class) continue;
      next.before = view.slab.get();
      next.slab.id.generation =
          view.slab->id().generation.Next(maker_.GenerationStep(retention_class));
      // A caller that tries out an earlier time must not end a generation before it began.
      if (rotation.as_if.has_value()) {
        next.began = std::max(now, view.slab->record().created_at);
      }
      TOPICDB_RETURN_IF_ERROR(EndGeneration(next.began, &view, batch));
    }
    std::optional<LayoutKind> before;  // decides, unless the rotation or the class names another
    if (next.before != nullptr) before = next.before->layout_kind();
    next.slab.layout =
        rotation.layout.value_or(shard_.environment->LayoutOfNew(next.slab.id, before));
    begin.push_back(next);
  }
  return begin;
}

Status Generations::PutRules(rocksdb::WriteBatch* batch) const {
  const std::string what = "noting the retention rules of " + shard_.Name();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
      batch->Put(meta::RulesKey(), meta::EncodeRules(shard_.rules->version())), what));
  if (!shard_.environment->open_log) return Status::Ok();  // others have them in a file
  const RecordReader records(shard_.db.get(), shard_.Name());
  TOPICDB_ASSIGN_OR_RETURN(const auto noted,
                           records.Find(meta::ReplicatedRulesKey(), "retention rules"));
  const std::string rules = EncodeRetention(*shard_.rules);
  if (noted == rules) return Status::Ok();
  return rocks::FromRocks(batch->Put(meta::ReplicatedRulesKey(), rules), what);
}

// If a column family was made here and its record was not written, the next opening drops it.
Status Generations::MakeNext(const std::vector<Next>& next, Serial begun_at,
                             std::vector<SlabView>* slabs, rocksdb::WriteBatch* batch) {
  std::vector<NewSlab> made;
  for (const Next& one : next) made.push_back(one.slab);
  const std::size_t ahead = shard_.SlabsAtOnce() / std::max<std::size_t>(made.size(), 1);
  TOPICDB_ASSIGN_OR_RETURN(FamiliesByName families, maker_.MakeFamilies(made, ahead));
  for (const Next& one : next) {
    const SlabId& id = one.slab.id;
    meta::SlabRecord record = shard_.environment->NewSlabRecord(id, one.slab.layout, one.began);
    record.begun_at = begun_at;
    TOPICDB_ASSIGN_OR_RETURN(auto slab, maker_.Make(id, record, one.before, &families, batch));
    slabs->insert(PlaceOf(id, *slabs), {std::move(slab), false, NotedTime()});
  }
  return Status::Ok();
}

Status Generations::RotateClasses(std::span<const RetentionClassId> classes,
                                  const Rotation& rotation) {
  rocksdb::WriteBatch batch;
  auto slabs = shard_.slabs ? *shard_.slabs : std::vector<SlabView>();
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<Next> next,
                           EndCurrent(classes, rotation, &slabs, &batch));
  const bool is_commit =
      std::any_of(next.begin(), next.end(), [](const Next& one) { return one.changes_layout(); });
  if (is_commit && shard_.commit.serial == shard_.commit.serial_limit) {
    TOPICDB_RETURN_IF_ERROR(shard_.ReserveSerials());
  }
  meta::CommitState after = shard_.commit;
  if (is_commit) ++after.serial;
  if (rotation.resets_clock) after.assigned_timestamp = meta::CommitState().assigned_timestamp;
  TOPICDB_RETURN_IF_ERROR(MakeNext(next, after.serial, &slabs, &batch));
  TOPICDB_RETURN_IF_ERROR(PutRules(&batch));
  rocksdb::Status status;
  if (is_commit || rotation.resets_clock) {
    status = batch.Put(meta::CommitStateKey(), meta::Encode(after));
  }
  for (const RetentionClassId id : rotation.begin_again) {
    const Slab& slab = *shard_.CurrentSlab(id)->slab;
    meta::SlabRecord record = slab.record();
    record.begun_at = after.serial;
    if (status.ok()) status = batch.Put(meta::SlabKey(slab.id()), meta::Encode(record));
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "rotating " + shard_.Name()));
  TOPICDB_ASSIGN_OR_RETURN(const auto saved, shard_.PutClock(&batch));
  TOPICDB_RETURN_IF_ERROR(
      shard_.Write({rocks::EntryKind::kGeneration, rocks::EntryDurability::kDisk}, &batch));
  if (saved.has_value()) shard_.clock.NoteSaved(*saved);
  shard_.commit = after;
  for (const RetentionClassId id : rotation.begin_again)
    shard_.CurrentSlab(id)->slab->BeginAgain(after.serial);
  shard_.topics.Clear();
  shard_.Publish(std::make_shared<const std::vector<SlabView>>(std::move(slabs)), shard_.deletes);
  if (is_commit) transactions_.Clear();
  sealing_.Wake();
  return Status::Ok();
}

}  // namespace topicdb
