// What a shard does with what jobs have staged for it.

#include <array>

#include "rocks/pages_file.h"
#include "rocks/rocks_compat.h"
#include "store/shard/commit_builder.h"
#include "store/shard/shard.h"

namespace topicdb {

Status Shard::CommitStaged(ShardCommit* commit) {
  const StagedMessages& staged = *commit->staged;
  const auto found = jobs_->find(staged.sequence);
  if (found != jobs_->end()) {
    const meta::JobSpan& last = found->second.last;
    commit->repeated = last.number >= staged.number;
    commit->serial = last.last_serial;
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
  if (rules_->Find(part.retention_class) == nullptr) {
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

meta::JobRecord Shard::JobAfter(const StagedMessages& staged) const {
  meta::JobRecord record;
  record.malformed = staged.malformed;
  const auto found = jobs_->find(staged.sequence);
  if (found == jobs_->end()) return record;
  record.earlier = found->second.earlier;
  record.earlier.push_back(found->second.last);
  const auto is_known = [&](const meta::JobSpan& span) {
    return span.committed_at_us < staged.pending_since_us;
  };
  while (record.earlier.size() > meta::kJobSpansMax ||
         (record.earlier.size() > meta::kJobSpansMin && is_known(record.earlier.front()))) {
    record.earlier.erase(record.earlier.begin());
  }
  return record;
}

std::vector<JobInfo> Shard::Jobs() const {
  std::vector<JobInfo> jobs;
  for (const auto& [sequence, record] : *view()->jobs()) {
    jobs.push_back({index_, sequence, record.last.number, record.last.first_serial,
                    record.last.last_serial, record.messages, record.malformed,
                    record.applied_at_us});
  }
  return jobs;
}

Status Shard::ForgetJobs() {
  const MutexLock lock(commit_mutex_);
  meta::JobRecords kept = *jobs_;
  const std::int64_t now_us = clock_.Look().timestamp_us;
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  std::erase_if(kept, [&](const auto& job) {
    // A job of its own is not committed again once its files are gone.
    const bool is_single = job.second.last.number == 0;
    if (!is_single || job.second.last.committed_at_us + meta::kJobMemoryUs > now_us) return false;
    if (status.ok()) status = batch.Delete(meta::JobKey(job.first));
    return true;
  });
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "forgetting jobs of " + Name()));
  if (batch.Count() == 0) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(Write(rocksdb::WriteOptions(), &batch));
  jobs_ = std::make_shared<const meta::JobRecords>(std::move(kept));
  Publish(slabs_, deletes_);
  return Status::Ok();
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
