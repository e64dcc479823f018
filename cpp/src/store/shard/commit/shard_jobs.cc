#include "store/shard/commit/shard_jobs.h"

#include <algorithm>

#include "rocks/pages_file.h"
#include "rocks/rocks_compat.h"

namespace topicdb {

meta::JobRecord JobAfter(const meta::JobRecords& jobs, const StagedMessages& staged) {
  meta::JobRecord record;
  record.malformed = staged.malformed;
  const auto found = jobs.find(staged.sequence);
  if (found == jobs.end()) return record;
  record.earlier = found->second.earlier;
  record.earlier.push_back(found->second.last);
  const auto is_known = [&](const meta::JobSpan& span) {
    return span.committed_at < staged.pending_since;
  };
  while (record.earlier.size() > meta::kJobSpansMax ||
         (record.earlier.size() > meta::kJobSpansMin && is_known(record.earlier.front()))) {
    record.earlier.erase(record.earlier.begin());
  }
  return record;
}

const meta::JobSpan* FindApplied(const meta::JobRecords& jobs, const std::string& sequence,
                                 std::uint64_t number) {
  const auto found = jobs.find(sequence);
  if (found == jobs.end() || found->second.last.number < number) return nullptr;
  return &found->second.last;
}

std::vector<JobInfo> ShardJobs::Infos() const {
  std::vector<JobInfo> jobs;
  for (const auto& [sequence, record] : *shard_.view()->jobs()) {
    jobs.push_back({shard_.index, sequence, record.last.number, record.last.first_serial,
                    record.last.last_serial, record.messages, record.malformed, record.applied_at});
  }
  return jobs;
}

bool ShardJobs::IsRepeated(ShardCommit* commit) const {
  const meta::JobSpan* const applied =
      FindApplied(*shard_.jobs, commit->staged->sequence, commit->staged->number);
  if (applied == nullptr) return false;
  commit->repeated = true;
  commit->serial = applied->last_serial;
  return true;
}

Result<std::uint64_t> ShardJobs::TakePages(const StagedMessages& staged) {
  // Another replica may have led meanwhile, and removed what belongs to no block.
  if (staged.pages && staged.log != shard_.log()) {
    return Conflict(shard_.Name() + " has another leader since pages were copied");
  }
  std::uint64_t blocks = 0;
  for (const StagedPart& part : staged.parts) {
    blocks += part.block_count;
    TOPICDB_RETURN_IF_ERROR(TakePart(staged, part));
  }
  return blocks;
}

Status ShardJobs::TakePart(const StagedMessages& staged, const StagedPart& part) {
  if (shard_.rules->Find(part.retention_class) == nullptr) {
    return Corruption(staged.directory + "/" + part.pages_file + " is for a class that " +
                      shard_.Name() + " does not have");
  }
  const Slab& slab = *shard_.CurrentSlab(part.retention_class)->slab;
  if (slab.log() == nullptr) return Status::Ok();  // it takes messages out of the files
  if (staged.pages) {
    const auto copied = staged.copied.find(part.retention_class);
    if (copied != staged.copied.end() && copied->second.get() == &slab) return Status::Ok();
    return Conflict(shard_.Name() + " has begun a new generation since pages were copied");
  }
  std::optional<std::uint64_t> first;
  TOPICDB_RETURN_IF_ERROR(ForEachStagedBlock(part, [&](const StagedBlock& block) {
    if (!first.has_value()) first = block.pages;
    return Status::Ok();
  }));
  TOPICDB_ASSIGN_OR_RETURN(
      const StagedState state,
      slab.log()->FindStaged({shard_.db.get(), nullptr, slab.families()}, *first));
  if (state == StagedState::kStored) return Status::Ok();  // an earlier try was cut short
  const std::string path = staged.directory + "/" + part.pages_file;
  if (state == StagedState::kInstalled) {
    return StorageFault(path + ": its pages have numbers that are in use; run the job again");
  }
  TOPICDB_RETURN_IF_ERROR(CheckPagesFile(staged.directory, part));
  return rocks::Ingest(shard_.db.get(), slab.families().sealed, path).WithContext(shard_.Name());
}

Status ShardJobs::ForgetOld() {
  const MutexLock lock(shard_.mutex);
  meta::JobRecords kept = *shard_.jobs;
  const WallTime now = shard_.clock.Look().believed_time;
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  std::erase_if(kept, [&](const auto& job) {
    // A job without a sequence is not committed again once its files are gone.
    const bool is_single = job.second.last.number == 0;
    if (!is_single || job.second.last.committed_at + meta::kJobMemory > now) return false;
    if (status.ok()) status = batch.Delete(meta::JobKey(job.first));
    return true;
  });
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "forgetting jobs of " + shard_.Name()));
  if (batch.Count() == 0) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(shard_.Write({rocks::EntryKind::kNumbers}, &batch));
  shard_.jobs = std::make_shared<const meta::JobRecords>(std::move(kept));
  shard_.Publish(shard_.slabs, shard_.deletes);
  return Status::Ok();
}

Status ShardJobs::RemoveUnplaced() {
  const MutexLock lock(shard_.mutex);
  for (const SlabView& view : *shard_.slabs) {
    const Slab& slab = *view.slab;
    if (slab.log() == nullptr) continue;
    TOPICDB_RETURN_IF_ERROR(
        slab.log()
            ->RemoveUnplaced({shard_.db.get(), nullptr, slab.families(), shard_.log().get()})
            .WithContext(shard_.Name()));
  }
  return Status::Ok();
}

}  // namespace topicdb
