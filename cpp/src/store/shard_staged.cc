// What a shard does with what jobs have staged for it.

#include <sys/stat.h>

#include <array>

#include "rocks/pages_file.h"
#include "rocks/rocks_compat.h"
#include "store/commit_builder.h"
#include "store/shard.h"

namespace topicdb {

Status Shard::CommitStaged(ShardCommit* commit) {
  const StagedMessages& staged = *commit->staged;
  std::string value;
  const rocksdb::Status found =
      db_->Get(rocksdb::ReadOptions(), meta::JobKey(staged.sequence), &value);
  if (!found.IsNotFound()) {
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(found, "looking for a job in " + Name()));
    meta::JobRecord record;
    if (!meta::Decode(value, &record)) {
      return Corruption(Name() + ": the record of the job '" + staged.sequence + "' is malformed");
    }
    commit->repeated = record.number >= staged.number;
    commit->serial = record.last_serial;
    if (commit->repeated) return Status::Ok();
  }
  std::uint64_t blocks = 0;
  for (const StagedPart& part : staged.parts) {
    blocks += part.block_count;
    TOPICDB_RETURN_IF_ERROR(TakePages(staged, part));
  }
  if (state_.serial + blocks > state_.serial_limit) TOPICDB_RETURN_IF_ERROR(ReserveSerials(blocks));
  CommitBuilder builder(*this, state_, &topics_, ExpectedWrites{});
  TOPICDB_RETURN_IF_ERROR(builder.AddStaged(commit).WithContext(Name()));
  const std::array<ShardCommit*, 1> alone{commit};
  WriteBuilt(&builder, alone);
  return commit->status;
}

Status Shard::TakePages(const StagedMessages& staged, const StagedPart& part) {
  if (part.retention_class >= environment_->rules.size()) {
    return Corruption(staged.directory + "/" + part.pages_file + " is for a class that " + Name() +
                      " does not have");
  }
  const Slab& slab = *CurrentSlab(part.retention_class)->slab;
  std::optional<std::uint64_t> first;
  TOPICDB_RETURN_IF_ERROR(ForEachStagedBlock(part, [&](const StagedBlock& block) {
    if (!first.has_value()) first = block.pages;
    return Status::Ok();
  }));
  TOPICDB_ASSIGN_OR_RETURN(const StagedState state,
                           slab.layout().FindStaged({db_.get(), nullptr, slab.families()}, *first));
  if (state == StagedState::kStored) return Status::Ok();  // an earlier try was cut short
  const std::string path = staged.directory + "/" + part.pages_file;
  if (state == StagedState::kInstalled) {
    return StorageFault(path + ": its pages have numbers that are in use; run the job again");
  }
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 ||
      static_cast<std::uint64_t>(info.st_size) != part.pages_file_bytes) {
    return Corruption(path + " is missing or cut off");
  }
  return rocks::Ingest(db_.get(), slab.families().sealed, path).WithContext(Name());
}

Status Shard::RemoveUnplaced() {
  const MutexLock lock(commit_mutex_);
  for (const SlabView& view : *slabs_) {
    const Slab& slab = *view.slab;
    TOPICDB_RETURN_IF_ERROR(
        slab.layout().RemoveUnplaced({db_.get(), nullptr, slab.families()}).WithContext(Name()));
  }
  return Status::Ok();
}

}  // namespace topicdb
