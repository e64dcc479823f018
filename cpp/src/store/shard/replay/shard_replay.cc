#include "store/shard/replay/shard_replay.h"

#include <algorithm>
#include <utility>

#include "store/shard/state/reader_loader.h"

namespace topicdb {

Status ShardReplay::Take(const rocksdb::WriteBatch& batch) {
  disk_.NoteWritten(batch.GetDataSize());
  const MutexLock lock(shard_.mutex);
  const auto removes =
      [this](std::uint32_t family, std::string_view key, bool deletes)
          TOPICDB_REQUIRES(shard_.mutex) { return RemovesMessagesIn(family, key, deletes); };
  auto records = ReadBatch(batch, shard_.index, removes);
  TOPICDB_RETURN_IF_ERROR(records.status().WithContext(shard_.Name()));
  if (records->rules != nullptr) {  // before any of its slabs: readers look up the class of each
    shard_.environment->retention->Set(*records->rules);
    shard_.rules = records->rules;
  }
  TOPICDB_RETURN_IF_ERROR(TakeStructures(*records));
  auto slabs = SlabsAfter(*records);
  TOPICDB_RETURN_IF_ERROR(slabs.status().WithContext(shard_.Name()));
  if (records->commit.has_value()) shard_.commit = *records->commit;
  TakeJobs(*records);
  NoteRemovals(*records);
  shard_.Publish(std::move(*slabs), DeletesAfter(*records));
  return Status::Ok();
}

// A slab that the batch makes is not there yet. Its structures and counters are loaded with it.
Status ShardReplay::TakeStructures(const BatchRecords& records) {
  for (const auto& [id, nodes] : records.nodes) {
    Slab* const slab = FindSlab(id);
    if (slab == nullptr) continue;
    TOPICDB_RETURN_IF_ERROR(slab->TakeRecords(nodes, std::nullopt).WithContext(shard_.Name()));
  }
  for (const auto& [id, counters] : records.counters) {
    Slab* const slab = FindSlab(id);
    if (slab != nullptr) TOPICDB_RETURN_IF_ERROR(slab->TakeRecords({}, counters));
  }
  return Status::Ok();
}

Slab* ShardReplay::FindSlab(const SlabId& id) const {
  const auto place = PlaceOf(id, *shard_.slabs);
  return place != shard_.slabs->end() && place->slab->id() == id ? place->slab.get() : nullptr;
}

Result<SlabViews> ShardReplay::SlabsAfter(const BatchRecords& records) {
  if (records.slabs.empty() && records.rules == nullptr) return shard_.slabs;
  std::vector<SlabView> slabs = *shard_.slabs;
  for (const auto& [id, record] : records.slabs) {
    if (record.has_value() && record->state != meta::SlabState::kDropping) {
      TOPICDB_RETURN_IF_ERROR(PutSlab(id, *record, &slabs));
      continue;
    }
    const auto is_it = [&](const SlabView& view) { return view.slab->id() == id; };
    if (std::erase_if(slabs, is_it) == 0) continue;
    shard_.removals_version = NewRemovalsVersion();
    disk_.Expire();
  }
  return std::make_shared<const std::vector<SlabView>>(std::move(slabs));
}

Status ShardReplay::PutSlab(const SlabId& id, const meta::SlabRecord& record,
                            std::vector<SlabView>* slabs) {
  const bool is_read_only = record.state == meta::SlabState::kReadOnly;
  const auto found = std::find_if(slabs->begin(), slabs->end(),
                                  [&](const SlabView& view) { return view.slab->id() == id; });
  if (found != slabs->end()) {
    found->read_only = is_read_only;
    found->sealed_at = record.sealed_at;
    if (found->slab->begun_at() != record.begun_at) found->slab->BeginAgain(record.begun_at);
    return Status::Ok();
  }
  if (!IsKnownClass(&shard_, id)) {
    return Corruption("the rules do not have the class of a new generation");
  }
  // Everything that the batch says of the slab is in RocksDB already.
  FamiliesByName families = shard_.families.all();
  TOPICDB_ASSIGN_OR_RETURN(auto slab, LoadSlab(shard_, id, record, &families));
  slabs->insert(PlaceOf(id, *slabs), {std::move(slab), is_read_only, record.sealed_at});
  return Status::Ok();
}

void ShardReplay::TakeJobs(const BatchRecords& records) {
  if (records.jobs.empty()) return;
  auto jobs = *shard_.jobs;
  for (const auto& [sequence, record] : records.jobs) {
    if (record.has_value()) {
      jobs.insert_or_assign(sequence, *record);
    } else {
      jobs.erase(sequence);
    }
  }
  shard_.jobs = std::make_shared<const meta::JobRecords>(std::move(jobs));
}

DeleteRecords ShardReplay::DeletesAfter(const BatchRecords& records) {
  if (records.deletes.empty() && records.finished_deletes.empty()) return shard_.deletes;
  auto deletes = *shard_.deletes;
  deletes.insert(deletes.end(), records.deletes.begin(), records.deletes.end());
  std::erase_if(deletes, [&](const meta::DeleteRecord& record) {
    return records.finished_deletes.contains({record.serial, record.index});
  });
  return std::make_shared<const std::vector<meta::DeleteRecord>>(std::move(deletes));
}

void ShardReplay::NoteRemovals(const BatchRecords& records) {
  bool removes_messages = !records.deletes.empty();
  for (const auto& [family, removes] : records.families) {
    removes_messages = removes_messages || removes;
    const Slab* const slab = SlabOf(family);
    if (slab == nullptr) continue;
    slab->upkeep().removed_at = shard_.db->GetLatestSequenceNumber();
    slab->upkeep().may_hold_garbage = true;
  }
  if (!removes_messages) return;
  shard_.removals_version = NewRemovalsVersion();
  shard_.NoteDeleted();
}

bool ShardReplay::RemovesMessagesIn(std::uint32_t family, std::string_view key, bool deletes) {
  const Slab* const slab = SlabOf(family);
  return slab != nullptr && slab->families().main->GetID() == family &&
         slab->layout().RemovesMessages(key, deletes) &&
         !shard_.environment->IsReserved(slab->id());
}

const Slab* ShardReplay::SlabOf(std::uint32_t family) {
  if (indexed_ != shard_.slabs) {
    by_family_.clear();
    for (const SlabView& view : *shard_.slabs) {
      for (rocksdb::ColumnFamilyHandle* family_of_slab : view.slab->all_families()) {
        by_family_[family_of_slab->GetID()] = view.slab.get();
      }
    }
    indexed_ = shard_.slabs;
  }
  const auto found = by_family_.find(family);
  return found == by_family_.end() ? nullptr : found->second;
}

}  // namespace topicdb
