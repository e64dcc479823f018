#include "replication/entry_applier.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "replication/batch_scan.h"
#include "rocks/drop_families.h"
#include "store/slab/family_stock.h"

namespace topicdb::replication {

namespace {

// The note of the last entry takes at most this in a batch, with its key.
constexpr std::size_t kAppliedBytesMax = 128;

}  // namespace

Status EntryApplier::Apply(const LogPlace& place, std::string_view bytes) {
  const meta::Applied before = rocks_.applied();
  if (place.index <= before.index) return Status::Ok();
  const auto decoded = DecodeEntry(bytes);
  const std::string context = rocks_.name() + ", entry " + std::to_string(place.index);
  TOPICDB_RETURN_IF_ERROR(decoded.status().WithContext(context));
  const Entry& entry = *decoded;
  meta::Applied after = before;
  after.index = place.index;
  after.term = place.term;
  if (entry.kind == EntryKind::kLead) {
    after.epoch = place.term;
    after.number = 0;
  } else if (Counts(entry, before)) {
    after.number = entry.number;
    return Do(entry, place, after).WithContext(context);
  }
  rocksdb::WriteBatch nothing;
  return rocks_.Write(&nothing, after, std::nullopt);
}

Status EntryApplier::Do(const Entry& entry, const LogPlace& place, const meta::Applied& after) {
  if (entry.kind == EntryKind::kDrop) return ApplyDrop(entry, after);
  if (entry.kind != EntryKind::kDigest) return ApplyBatch(entry, after);
  rocksdb::WriteBatch nothing;
  TOPICDB_RETURN_IF_ERROR(rocks_.Write(&nothing, after, std::nullopt));
  if (at_digest_) at_digest_(place);
  return Status::Ok();
}

bool EntryApplier::Counts(const Entry& entry, const meta::Applied& before) const {
  if (entry.epoch != before.epoch || entry.number <= before.number) return false;
  return entry.serial == kNoSerial || entry.previous_serial == rocks_.serial();
}

Status EntryApplier::ApplyBatch(const Entry& entry, const meta::Applied& after) {
  std::string records;
  records.reserve(entry.body.size() + kAppliedBytesMax);  // else adding the note would copy all
  records = entry.body;
  rocksdb::WriteBatch batch(std::move(records));
  TOPICDB_ASSIGN_OR_RETURN(const BatchContent content, ScanBatch(batch));
  std::map<std::uint32_t, rocksdb::ColumnFamilyHandle*> handles;
  for (const NamedFamily& named : entry.families) {
    TOPICDB_ASSIGN_OR_RETURN(handles[named.id], FindOrMake(named.family));
  }
  for (const std::uint32_t id : content.families) {
    if (!handles.contains(id)) {
      return Corruption("the batch writes to the column family " + std::to_string(id) +
                        ", which it does not name");
    }
  }
  const bool has_same_ids = std::all_of(handles.begin(), handles.end(), [](const auto& named) {
    return named.first == named.second->GetID();
  });
  if (!has_same_ids) {
    rocksdb::WriteBatch own;
    TOPICDB_RETURN_IF_ERROR(
        CopyBatch(batch, [&](std::uint32_t id) { return handles.at(id); }, &own));
    batch = std::move(own);
  }
  TOPICDB_RETURN_IF_ERROR(rocks_.Write(&batch, after, content.serial));
  return entry.kind == EntryKind::kBatch && written_ ? written_(batch) : Status::Ok();
}

Status EntryApplier::ApplyDrop(const Entry& entry, const meta::Applied& after) {
  rocks::FamilyHandles handles;
  for (const SlabFamily& family : entry.dropped) {
    rocksdb::ColumnFamilyHandle* const handle = rocks_.Find(family);
    if (handle != nullptr) handles.push_back(handle);
  }
  // The families go at once, also from the files. So the batches before this entry must be in files
  // first, or they would be applied again after a crash, to families that are made anew.
  rocksdb::WriteBatch nothing;
  TOPICDB_RETURN_IF_ERROR(rocks_.Write(&nothing, after, std::nullopt));
  if (handles.empty()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(rocks_.Flush());
  const rocksdb::Status dropped = rocks::DropFamilies(shard_.db, handles);
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(dropped, "dropping column families"));
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    const std::string name = handle->GetName();
    rocks_.Remove(handle);
    shard_.families->Remove(name);
  }
  return Status::Ok();
}

Result<rocksdb::ColumnFamilyHandle*> EntryApplier::FindOrMake(const SlabFamily& family) {
  rocksdb::ColumnFamilyHandle* handle = rocks_.Find(family);
  if (handle != nullptr) return handle;
  const std::string name = NameOf(family);
  const rocksdb::Status status = shard_.db->CreateColumnFamily(
      rocks::FamilyOptions(shard_.resources, FamilyUseOf(name)), name, &handle);
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "making the column family " + name));
  shard_.families->Add({{name, std::make_shared<FamilyHandle>(shard_.db, handle)}});
  rocks_.Add(handle);
  return handle;
}

}  // namespace topicdb::replication
