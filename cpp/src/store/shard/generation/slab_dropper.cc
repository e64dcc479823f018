#include "store/shard/generation/slab_dropper.h"

#include <algorithm>

#include "base/clock.h"
#include "rocks/rocks_compat.h"
#include "store/read/drop_summary.h"

namespace topicdb {

// A read-only slab can only lose messages, so Drop summarizes it while others commit.
Status SlabDropper::Drop(RetentionClassId retention_class, Generation generation) {
  const SlabId id{shard_.index, retention_class, generation};
  std::optional<meta::DropRecord> drop;
  {
    const std::shared_ptr<const ShardView> moment = shard_.view();
    const SlabView* const seen = moment->Find(id);
    if (seen != nullptr && seen->read_only) drop = DropOf(*moment, *seen->slab);
  }
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  const auto found = std::find_if(shard_.slabs->begin(), shard_.slabs->end(),
                                  [&](const SlabView& view) { return view.slab->id() == id; });
  // The shard's own rules may not know the class yet.
  const std::string what = "generation " + std::to_string(generation.value()) + " of class '" +
                           shard_.environment->rules()->FilterOf(retention_class) + "' in " +
                           shard_.Name();
  if (found == shard_.slabs->end()) return NotFound("there is no " + what);
  if (!found->read_only) {
    return InvalidArgument(what + " is the current one: rotate first, then drop it");
  }
  rocksdb::WriteBatch batch;
  if (drop.has_value() && !drop->parts.empty()) {
    drop->serial = shard_.commit.serial.Next();
    TOPICDB_RETURN_IF_ERROR(PutDrop(*drop, &batch));
  }
  return Replace({found->slab}, nullptr, &batch);
}

Status SlabDropper::Replace(const std::vector<std::shared_ptr<Slab>>& gone,
                            std::shared_ptr<Slab> made, rocksdb::WriteBatch* batch) {
  // This is a commit of its own, because transactions that began before it may have read messages
  // that are gone now.
  if (shard_.commit.serial == shard_.commit.serial_limit)
    TOPICDB_RETURN_IF_ERROR(shard_.ReserveSerials());
  meta::CommitState after = shard_.commit;
  ++after.serial;
  auto slabs = *shard_.slabs;
  rocksdb::Status status = batch->Put(meta::CommitStateKey(), meta::Encode(after));
  for (const std::shared_ptr<Slab>& slab : gone) {
    std::erase_if(slabs, [&](const SlabView& view) { return view.slab == slab; });
    meta::SlabRecord record = slab->record();
    record.state = meta::SlabState::kDropping;
    const std::string nodes = meta::NodePrefix(slab->id());
    if (status.ok()) status = batch->Put(meta::SlabKey(slab->id()), meta::Encode(record));
    if (status.ok()) status = batch->Delete(meta::CountersKey(slab->id()));
    if (status.ok()) {
      status = batch->DeleteRange(shard_.default_family->get(), nodes + std::string(4, '\0'),
                                  nodes + std::string(5, '\xff'));
    }
  }
  const std::string what = "dropping generations of " + shard_.Name();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, what));
  if (made != nullptr) {
    const NotedTime sealed_at = made->record().sealed_at;
    const auto place = PlaceOf(made->id(), slabs);
    slabs.insert(place, {std::move(made), true, sealed_at});
  }
  TOPICDB_RETURN_IF_ERROR(
      shard_.Write({rocks::EntryKind::kGeneration, rocks::EntryDurability::kDisk}, batch));
  shard_.commit = after;
  shard_.removals_version = NewRemovalsVersion();
  shard_.Publish(std::make_shared<const std::vector<SlabView>>(std::move(slabs)), shard_.deletes);
  transactions_.Clear();

  leaving_.insert(leaving_.end(), gone.begin(), gone.end());
  disk_.Expire();
  return leaving_.size() > shard_.SlabsAtOnce() ? DropLeaving() : Status::Ok();
}

Status SlabDropper::DropLeaving() {
  if (leaving_.empty()) return Status::Ok();
  const std::string what = "dropping generations of " + shard_.Name();
  rocks::FamilyHandles families;
  rocksdb::WriteBatch batch;
  for (const std::shared_ptr<Slab>& slab : leaving_) {
    for (rocksdb::ColumnFamilyHandle* family : slab->all_families()) families.push_back(family);
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch.Delete(meta::SlabKey(slab->id())), what));
  }
  TOPICDB_RETURN_IF_ERROR(shard_.DropFamilies(families));
  leaving_.clear();
  return shard_.Write({rocks::EntryKind::kGeneration}, &batch);
}

Status SlabDropper::Finish() {
  const MutexLock lock(shard_.mutex);
  if (leaving_.empty()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  return DropLeaving();
}

meta::DropRecord SlabDropper::DropOf(const ShardView& view, const Slab& slab) const {
  const SlabInfo info = slab.Info({});
  meta::DropRecord drop;
  drop.retention_class = shard_.environment->rules()->FilterOf(slab.id().retention_class);
  drop.generation = slab.id().generation;
  drop.dropped_at = ReadWallClock();
  drop.last_timestamp = info.last_timestamp.value_or(0);
  if (info.messages == 0) return drop;
  auto parts = slab.log() != nullptr ? SummarizeLog(view, slab) : SummarizeState(view, slab);
  if (parts.ok()) {
    drop.parts = std::move(*parts);
  } else {  // damage is no reason to keep the slab
    drop.parts.push_back({"#", {{view.serial(), info.messages}}});
  }
  return drop;
}

Status SlabDropper::PutDrop(const meta::DropRecord& drop, rocksdb::WriteBatch* batch) const {
  rocksdb::Status status = batch->Put(meta::DropKey(drop.serial), meta::Encode(drop));
  if (CountDrops() >= meta::kDropsMax) {
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<meta::DropRecord> drops, DropsBehind(kNoSerial));
    const meta::DropRecord oldest = Coarse(drops[0], drops[1]);
    if (status.ok()) status = batch->Delete(meta::DropKey(drops[0].serial));
    if (status.ok()) status = batch->Put(meta::DropKey(oldest.serial), meta::Encode(oldest));
  }
  return rocks::FromRocks(status, "noting a generation that is dropped in " + shard_.Name());
}

std::size_t SlabDropper::CountDrops() const {
  std::size_t count = 0;
  const std::string prefix = meta::DropPrefix();
  const std::unique_ptr<rocksdb::Iterator> records(shard_.db->NewIterator(rocksdb::ReadOptions()));
  for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
       records->Next()) {
    ++count;
  }
  return count;
}

Result<std::vector<meta::DropRecord>> SlabDropper::DropsBehind(Serial serial) const {
  std::vector<meta::DropRecord> drops;
  const std::string prefix = meta::DropPrefix();
  const std::unique_ptr<rocksdb::Iterator> records(shard_.db->NewIterator(rocksdb::ReadOptions()));
  for (records->Seek(meta::DropKey(serial.Next()));
       records->Valid() && records->key().starts_with(prefix); records->Next()) {
    meta::DropRecord& drop = drops.emplace_back();
    if (!meta::Decode(records->key().ToStringView(), records->value().ToStringView(), &drop)) {
      return Corruption("the record of a dropped generation in " + shard_.Name() + " is malformed");
    }
  }
  TOPICDB_RETURN_IF_ERROR(
      rocks::FromRocks(records->status(), "reading dropped generations of " + shard_.Name()));
  return drops;
}

}  // namespace topicdb
