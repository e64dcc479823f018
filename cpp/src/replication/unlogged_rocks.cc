#include "replication/unlogged_rocks.h"

#include <memory>
#include <utility>

#include "store/shard/state/record_reader.h"

namespace topicdb::replication {

Result<std::unique_ptr<UnloggedRocks>> UnloggedRocks::Make(const OpenedShard& shard) {
  meta::Applied applied;
  meta::CommitState state;
  const RecordReader records(shard.db, shard.name);
  TOPICDB_RETURN_IF_ERROR(
      records.Read(meta::AppliedKey(), "place in the replicated log", &applied));
  TOPICDB_RETURN_IF_ERROR(records.Read(meta::CommitStateKey(), "commit state", &state));
  std::unique_ptr<UnloggedRocks> rocks(new UnloggedRocks(shard, applied, state.serial));
  for (const auto& [name, family] : shard.families->all()) rocks->Add(family->get());
  return rocks;
}

UnloggedRocks::UnloggedRocks(const OpenedShard& shard, const meta::Applied& applied, Serial serial)
    : db_(shard.db),
      name_(shard.name),
      default_family_(shard.default_family.get()),
      applied_(applied),
      serial_(serial) {}

meta::Applied UnloggedRocks::applied() const {
  const MutexLock lock(mutex_);
  return applied_;
}

Serial UnloggedRocks::serial() const {
  const MutexLock lock(mutex_);
  return serial_;
}

Status UnloggedRocks::Write(rocksdb::WriteBatch* batch, const meta::Applied& applied,
                            std::optional<Serial> serial) {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  // A family that was dropped meanwhile must not end all writes: see LocalLog.
  options.ignore_missing_column_families = true;
  rocksdb::Status status = batch->Put(meta::AppliedKey(), meta::Encode(applied));
  if (status.ok()) status = db_->Write(options, batch);
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "writing " + name_));
  const MutexLock lock(mutex_);
  applied_ = applied;
  if (serial.has_value()) serial_ = *serial;
  return Status::Ok();
}

Status UnloggedRocks::Flush() {
  rocksdb::FlushOptions options;
  options.allow_write_stall = true;  // false: waits for a moment at which it stalls nobody
  return rocks::FromRocks(db_->Flush(options, Families()), "flushing " + name_);
}

void UnloggedRocks::Add(rocksdb::ColumnFamilyHandle* family) {
  SlabFamily named;
  if (!DecodeName(family->GetName(), &named)) return;  // no batch names it
  const MutexLock lock(mutex_);
  families_[named] = family;
  by_id_[family->GetID()] = named;
}

void UnloggedRocks::Remove(rocksdb::ColumnFamilyHandle* family) {
  const MutexLock lock(mutex_);
  const auto found = by_id_.find(family->GetID());
  if (found == by_id_.end()) return;
  families_.erase(found->second);
  by_id_.erase(found);
}

rocksdb::ColumnFamilyHandle* UnloggedRocks::Find(const SlabFamily& family) const {
  const MutexLock lock(mutex_);
  const auto found = families_.find(family);
  return found == families_.end() ? nullptr : found->second;
}

std::optional<SlabFamily> UnloggedRocks::Find(std::uint32_t id) const {
  const MutexLock lock(mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? std::nullopt : std::optional(found->second);
}

rocks::FamilyHandles UnloggedRocks::Families() const {
  const MutexLock lock(mutex_);
  rocks::FamilyHandles handles{default_family_};
  for (const auto& [family, handle] : families_) handles.push_back(handle);
  return handles;
}

}  // namespace topicdb::replication
