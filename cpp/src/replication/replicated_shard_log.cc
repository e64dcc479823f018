#include "replication/replicated_shard_log.h"

#include <utility>

#include "replication/batch_scan.h"
#include "rocks/local_log.h"

namespace topicdb::replication {

Status ReplicatedShardLog::Write(const rocks::ShardEntry& entry, rocksdb::WriteBatch* batch) {
  TOPICDB_ASSIGN_OR_RETURN(const BatchContent content, ScanBatch(*batch));
  const MutexLock lock(mutex_);
  Entry made;
  made.kind = entry.kind == rocks::EntryKind::kData ? EntryKind::kPages : EntryKind::kBatch;
  if (content.serial.has_value() && *content.serial != rocks_->serial()) {
    made.previous_serial = rocks_->serial();
    made.serial = *content.serial;
  }
  for (const std::uint32_t id : content.families) {
    const std::optional<SlabFamily> family = rocks_->Find(id);
    if (family.has_value()) {
      made.families.push_back({id, *family});
    } else if (made.kind == EntryKind::kPages) {
      return Status::Ok();  // the slab was dropped, and nobody misses its pages
    } else {
      return StorageFault("writing " + rocks_->name() + ": the column family " +
                          std::to_string(id) + " was dropped");
    }
  }
  if (made.kind == EntryKind::kBatch) AnnounceFamilies(&made);
  made.body = batch->Data();
  return ProposeAndWrite(&made, content.serial, batch).status();
}

Result<LogPlace> ReplicatedShardLog::ProposeDigest(
    const std::function<void(const LogPlace&)>& take) {
  const MutexLock lock(mutex_);
  Entry digest;
  digest.kind = EntryKind::kDigest;
  rocksdb::WriteBatch nothing;
  auto place = ProposeAndWrite(&digest, std::nullopt, &nothing);
  if (place.ok()) take(*place);
  return place;
}

Result<LogPlace> ReplicatedShardLog::ProposeAndWrite(Entry* entry, std::optional<Serial> serial,
                                                     rocksdb::WriteBatch* batch) {
  const meta::Applied before = rocks_->applied();
  entry->epoch = before.epoch;
  entry->number = before.number + 1;
  bytes_ += entry->body.size();
  auto place = log_->Propose(*entry);
  TOPICDB_RETURN_IF_ERROR(place.status().WithContext("writing " + rocks_->name()));
  Status written =
      rocks_->Write(batch, {place->index, place->term, entry->epoch, entry->number}, serial);
  if (!written.ok()) {
    log_->NoteFailed(written);
    return written;
  }
  log_->NoteApplied(*place);
  return place;
}

Status ReplicatedShardLog::CheckInPlace() const {
  return rocks::CheckShardInPlace(*rocks_->db(), rocks_->name());
}

void ReplicatedShardLog::AddFamilies(const rocks::FamilyHandles& families) {
  const MutexLock lock(mutex_);
  for (rocksdb::ColumnFamilyHandle* family : families) {
    rocks_->Add(family);
    const std::optional<SlabFamily> named = rocks_->Find(family->GetID());
    if (named.has_value()) unannounced_[family->GetID()] = *named;
  }
}

void ReplicatedShardLog::AnnounceFamilies(Entry* entry) {
  for (const NamedFamily& named : entry->families) unannounced_.erase(named.id);
  for (const auto& [id, family] : unannounced_) entry->families.push_back({id, family});
  unannounced_.clear();
}

Status ReplicatedShardLog::PrepareDrop(const rocks::FamilyHandles& families) {
  const MutexLock lock(mutex_);
  Entry drop;
  drop.kind = EntryKind::kDrop;
  for (rocksdb::ColumnFamilyHandle* family : families) {
    const std::optional<SlabFamily> known = rocks_->Find(family->GetID());
    if (known.has_value()) drop.dropped.push_back(*known);
  }
  if (drop.dropped.empty()) return Status::Ok();  // no batch has named them
  rocksdb::WriteBatch nothing;
  TOPICDB_RETURN_IF_ERROR(ProposeAndWrite(&drop, std::nullopt, &nothing).status());
  // A family goes at once, also from the files, so what was written before must be in files first.
  TOPICDB_RETURN_IF_ERROR(rocks_->Flush());
  for (rocksdb::ColumnFamilyHandle* family : families) {
    rocks_->Remove(family);
    unannounced_.erase(family->GetID());
  }
  return Status::Ok();
}

rocks::FamilyHandles ReplicatedShardLog::FlushedWith(rocks::FamilyHandles) const {
  return rocks_->Families();
}

}  // namespace topicdb::replication
