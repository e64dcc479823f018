// What a shard does with what jobs have staged for it.

#include <array>

#include "base/clock.h"
#include "rocks/pages_file.h"
#include "rocks/rocks_compat.h"
#include "store/commit_builder.h"
#include "store/shard.h"

namespace topicdb {

namespace {
constexpr std::int64_t kJobMemoryUs = std::int64_t{7} * 24 * 3'600 * 1'000'000;
}  // namespace

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
  if (!slab.layout().seals()) return Status::Ok();  // it takes messages out of the files
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
  TOPICDB_RETURN_IF_ERROR(CheckPagesFile(staged.directory, part));
  return rocks::Ingest(db_.get(), slab.families().sealed, path).WithContext(Name());
}

Result<std::vector<JobInfo>> Shard::Jobs() const {
  std::vector<JobInfo> jobs;
  const std::string prefix = meta::JobPrefix();
  const std::unique_ptr<rocksdb::Iterator> records(db_->NewIterator(rocksdb::ReadOptions()));
  for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
       records->Next()) {
    meta::JobRecord record;
    if (!meta::Decode(records->value().ToStringView(), &record)) {
      return Corruption(Name() + ": the record of a job is malformed");
    }
    jobs.push_back({index_, records->key().ToString().substr(prefix.size()), record.number,
                    record.first_serial, record.last_serial, record.messages, record.malformed,
                    record.applied_at_us});
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(records->status(), "reading jobs of " + Name()));
  return jobs;
}

Status Shard::ForgetJobs() {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<JobInfo> jobs, Jobs());
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  for (const JobInfo& job : jobs) {
    // A job of its own is not committed again once its files are gone.
    const bool is_single = job.number == 0;
    if (!is_single || job.applied_at_us + kJobMemoryUs > SystemClockUs()) continue;
    if (status.ok()) status = batch.Delete(meta::JobKey(job.sequence));
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "forgetting jobs of " + Name()));
  if (batch.Count() == 0) return Status::Ok();
  const MutexLock lock(commit_mutex_);
  return Write(rocksdb::WriteOptions(), &batch);
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
