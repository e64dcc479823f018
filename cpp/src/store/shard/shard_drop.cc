// Dropping a slab, and telling readers that had not come to it.

#include <algorithm>

#include "base/clock.h"
#include "rocks/rocks_compat.h"
#include "store/read/drop_summary.h"
#include "store/shard/shard.h"

namespace topicdb {

// What it has can only become less, so it is looked at while others commit.
Status Shard::DropSlab(std::uint32_t retention_class, std::uint32_t generation) {
  const SlabId id{index_, retention_class, generation};
  std::optional<meta::DropRecord> drop;
  {
    const std::shared_ptr<const ShardView> moment = view();
    const SlabView* const seen = moment->Find(id);
    const bool has_log = seen != nullptr && seen->read_only && seen->slab->layout().has_log();
    if (has_log) drop = DropOf(*moment, *seen->slab);
  }
  const MutexLock lock(commit_mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  const auto found = std::find_if(slabs_->begin(), slabs_->end(),
                                  [&](const SlabView& view) { return view.slab->id() == id; });
  const std::string what = "generation " + std::to_string(generation) + " of class '" +
                           rules_->FilterOf(retention_class) + "' in " + Name();
  if (found == slabs_->end()) return NotFound("there is no " + what);
  if (!found->read_only) {
    return InvalidArgument(what + " is the current one: rotate first, then drop it");
  }
  rocksdb::WriteBatch batch;
  if (drop.has_value() && !drop->parts.empty()) {
    drop->serial = state_.serial + 1;
    TOPICDB_RETURN_IF_ERROR(PutDrop(*drop, &batch));
  }
  return ReplaceSlabs({found->slab}, nullptr, &batch);
}

Status Shard::ReplaceSlabs(const std::vector<std::shared_ptr<Slab>>& gone,
                           std::shared_ptr<Slab> made, rocksdb::WriteBatch* batch) {
  // A commit of its own: transactions that began before it may have read what is gone now.
  if (state_.serial == state_.serial_limit) TOPICDB_RETURN_IF_ERROR(ReserveSerials());
  meta::CommitState after = state_;
  ++after.serial;
  auto slabs = *slabs_;
  rocksdb::Status status = batch->Put(meta::CommitStateKey(), meta::Encode(after));
  for (const std::shared_ptr<Slab>& slab : gone) {
    std::erase_if(slabs, [&](const SlabView& view) { return view.slab == slab; });
    meta::SlabRecord record = slab->record();
    record.state = meta::SlabState::kDropping;
    const std::string nodes = meta::NodePrefix(slab->id());
    if (status.ok()) status = batch->Put(meta::SlabKey(slab->id()), meta::Encode(record));
    if (status.ok()) status = batch->Delete(meta::CountersKey(slab->id()));
    if (status.ok()) {
      status = batch->DeleteRange(default_family_->get(), nodes + std::string(4, '\0'),
                                  nodes + std::string(5, '\xff'));
    }
  }
  const std::string what = "dropping generations of " + Name();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, what));
  if (made != nullptr) {
    const std::int64_t sealed_at_us = made->record().sealed_at_us;
    const auto place = PlaceOf(made->id(), slabs);
    slabs.insert(place, {std::move(made), true, sealed_at_us});
  }
  rocksdb::WriteOptions options;
  options.sync = true;
  TOPICDB_RETURN_IF_ERROR(Write(options, batch));
  state_ = after;
  removals_version_ = NewRemovalsVersion();
  Publish(std::make_shared<const std::vector<SlabView>>(std::move(slabs)), deletes_);
  memory_.Clear(state_.serial);

  leaving_.insert(leaving_.end(), gone.begin(), gone.end());
  disk_measured_at_us_ = 0;
  return leaving_.size() > SlabsAtOnce() ? DropLeaving() : Status::Ok();
}

Status Shard::DropLeaving() {
  if (leaving_.empty()) return Status::Ok();
  const std::string what = "dropping generations of " + Name();
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  rocksdb::WriteBatch batch;
  for (const std::shared_ptr<Slab>& slab : leaving_) {
    for (rocksdb::ColumnFamilyHandle* family : slab->all_families()) families.push_back(family);
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch.Delete(meta::SlabKey(slab->id())), what));
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(db_->DropColumnFamilies(families), what));
  leaving_.clear();
  return Write(rocksdb::WriteOptions(), &batch);
}

Status Shard::FinishDrops() {
  const MutexLock lock(commit_mutex_);
  if (leaving_.empty()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  return DropLeaving();
}

meta::DropRecord Shard::DropOf(const ShardView& view, const Slab& slab) const {
  const SlabInfo info = slab.Info({});
  meta::DropRecord drop;
  drop.retention_class = environment_->rules()->FilterOf(slab.id().retention_class);
  drop.generation = slab.id().generation;
  drop.dropped_at_us = SystemClockUs();
  drop.last_timestamp = info.last_timestamp.value_or(0);
  if (info.messages == 0) return drop;
  auto parts = SummarizeLog(view, slab);
  if (parts.ok()) {
    drop.parts = std::move(*parts);
  } else {  // damage is no reason to keep it
    drop.parts.push_back({"#", {{view.serial(), info.messages}}});
  }
  return drop;
}

Status Shard::PutDrop(const meta::DropRecord& drop, rocksdb::WriteBatch* batch) const {
  rocksdb::Status status = batch->Put(meta::DropKey(drop.serial), meta::Encode(drop));
  if (CountDrops() >= meta::kDropsMax) {
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<meta::DropRecord> drops, DropsBehind(0));
    const meta::DropRecord oldest = Coarse(drops[0], drops[1]);
    if (status.ok()) status = batch->Delete(meta::DropKey(drops[0].serial));
    if (status.ok()) status = batch->Put(meta::DropKey(oldest.serial), meta::Encode(oldest));
  }
  return rocks::FromRocks(status, "noting a generation that is dropped in " + Name());
}

std::size_t Shard::CountDrops() const {
  std::size_t count = 0;
  const std::string prefix = meta::DropPrefix();
  const std::unique_ptr<rocksdb::Iterator> records(db_->NewIterator(rocksdb::ReadOptions()));
  for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
       records->Next()) {
    ++count;
  }
  return count;
}

Result<std::vector<meta::DropRecord>> Shard::DropsBehind(std::uint64_t serial) const {
  std::vector<meta::DropRecord> drops;
  const std::string prefix = meta::DropPrefix();
  const std::unique_ptr<rocksdb::Iterator> records(db_->NewIterator(rocksdb::ReadOptions()));
  for (records->Seek(meta::DropKey(serial + 1));
       records->Valid() && records->key().starts_with(prefix); records->Next()) {
    meta::DropRecord& drop = drops.emplace_back();
    if (!meta::Decode(records->key().ToStringView(), records->value().ToStringView(), &drop)) {
      return Corruption("the record of a dropped generation in " + Name() + " is malformed");
    }
  }
  TOPICDB_RETURN_IF_ERROR(
      rocks::FromRocks(records->status(), "reading dropped generations of " + Name()));
  return drops;
}

}  // namespace topicdb
