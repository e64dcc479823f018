#include "replication/jobs/cluster_jobs.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "base/bytes/random_bytes.h"
#include "base/clock.h"
#include "base/file/files.h"
#include "replication/deadline.h"
#include "replication/jobs/staged_upload.h"
#include "replication/raft/format.h"
#include "rocks/rocks_compat.h"
#include "store/job/job_files.h"
#include "store/shard/commit/shard_jobs.h"

namespace topicdb::replication {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookAgainAfter(10);

const std::string& SequenceOf(const JobCommit& commit) {
  return commit.sequence.empty() ? commit.job : commit.sequence;
}

// Returns the job that is under way and has committed `commit`, or a later one of its sequence.
const ClusterJob* FindUnderWay(const ClusterState& state, const JobCommit& commit) {
  const auto is_it = [&](const ClusterJob& job) {
    return job.kind == ClusterJobKind::kCommit && job.sequence == SequenceOf(commit) &&
           (job.number > 0) == (commit.number > 0) && job.number >= commit.number;
  };
  const auto found = std::find_if(state.jobs.begin(), state.jobs.end(), is_it);
  return found == state.jobs.end() ? nullptr : &*found;
}

// Removes the files of a task from the directory of this site.
void RemoveFiles(const std::string& directory, const std::string& name, const StagedFile& file) {
  for (const StagedPart& part : file.parts) unlink((directory + "/" + part.pages_file).c_str());
  unlink((directory + "/" + name).c_str());
  rmdir(directory.c_str());  // unless another task has files there
}

}  // namespace

ClusterJobs::ClusterJobs(ClusterGroup* group, std::shared_ptr<SiteShards> shards,
                         std::shared_ptr<const ShardEnvironment> environment, milliseconds patience)
    : group_(*group),
      shards_(std::move(shards)),
      environment_(std::move(environment)),
      patience_(patience),
      worker_(group, shards_, patience) {}

Status ClusterJobs::CheckFormat() const {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kAddJob;
  return CheckInForce(FormatOf(command), group_.format()).WithContext("jobs in a cluster");
}

Status ClusterJobs::Share(const std::string& job, const std::string& file) {
  TOPICDB_RETURN_IF_ERROR(CheckFormat());
  const std::string directory = JobDirectory(environment_->database_path, job);
  const auto staged = LoadStagedFile(directory, file);
  if (staged.status().code() == Code::kNotFound) {
    const bool is_shared = FindInFirst(JobStagedPrefix(job) + StagedFileRest(file)).ok();
    return is_shared ? Status::Ok() : staged.status();
  }
  TOPICDB_RETURN_IF_ERROR(staged.status());
  if (staged->database != environment_->database) {
    return Corruption(directory + "/" + file + " was staged for another database");
  }
  for (const StagedPart& part : staged->parts) {
    if (part.shard < environment_->schema.shards) continue;
    return Corruption(directory + "/" + part.pages_file +
                      " is for a shard that the database does not have");
  }
  TOPICDB_RETURN_IF_ERROR(UploadStaged(*shards_, job, directory, file, *staged, patience_));
  RemoveFiles(directory, file, *staged);
  return Status::Ok();
}

Status ClusterJobs::ShareRest(const JobCommit& commit) {
  const std::string directory = JobDirectory(environment_->database_path, commit.job);
  if (!IsDirectory(directory)) return Status::Ok();
  for (const std::string& file : commit.files) {
    if (file.empty() || !Exists(directory + "/" + file)) continue;
    TOPICDB_RETURN_IF_ERROR(Share(commit.job, file));
  }
  return Status::Ok();
}

Result<JobReceipt> ClusterJobs::Commit(const JobCommit& commit) {
  const auto applied_by = Clock::now() + commit.timeout;
  const auto deadline = std::max(applied_by, Clock::now() + patience_);
  TOPICDB_RETURN_IF_ERROR(CheckFormat());
  TOPICDB_RETURN_IF_ERROR(ShareRest(commit));
  for (;;) {
    auto tried = Try(commit, deadline, applied_by);
    TOPICDB_RETURN_IF_ERROR(tried.status());
    if (tried->has_value()) return std::move(**tried);
    if (Clock::now() >= deadline) {
      return Locked("the job '" + commit.job +
                    "' is not committed: other jobs were committed or aborted all the time");
    }
  }
}

Result<std::optional<JobReceipt>> ClusterJobs::Try(const JobCommit& commit,
                                                   Clock::time_point deadline,
                                                   Clock::time_point applied_by) {
  // A job that is over since was applied before what follows.
  const ClusterState state = group_.state();
  TOPICDB_RETURN_IF_ERROR(shards_->AwaitAcknowledged(LeftUntil(deadline)));
  if (const ClusterJob* const job = FindUnderWay(state, commit)) {
    if (job->job != commit.job) Remove(commit.job, patience_).IgnoreError();  // is swept later
    JobReceipt receipt = AwaitApplied(*job, applied_by);
    receipt.repeated = true;
    receipt.messages = job->number == commit.number ? job->messages : 0;
    return std::optional(std::move(receipt));
  }
  if (auto receipt = FindReceipt(commit)) {
    if (IsStaged(commit.job)) Remove(commit.job, patience_).IgnoreError();
    return receipt;
  }
  if (state.FindJob(commit.job) != nullptr) {  // it is being removed
    AwaitChange(state, deadline);
    return std::optional<JobReceipt>();
  }
  const auto chosen = Choose(commit, state.jobs_epoch);
  if (chosen.ok() && chosen->choices.empty()) {  // no task has had a message
    return std::optional(JobReceipt());
  }
  Status decided = chosen.ok() ? Decide(*chosen, deadline) : chosen.status();
  if (decided.code() == Code::kNotFound) {
    // Another call may have committed the job meanwhile.
    TOPICDB_RETURN_IF_ERROR(shards_->AwaitAcknowledged(LeftUntil(deadline)));
    if (auto receipt = FindReceipt(commit)) return receipt;
  }
  if (decided.code() == Code::kConflict) return std::optional<JobReceipt>();
  TOPICDB_RETURN_IF_ERROR(decided);
  JobReceipt receipt = AwaitApplied(chosen->job, applied_by);
  receipt.messages = chosen->job.messages;
  return std::optional(std::move(receipt));
}

Result<ClusterJobs::Chosen> ClusterJobs::Choose(const JobCommit& commit,
                                                std::uint64_t epoch) const {
  Chosen chosen;
  ClusterJob& job = chosen.job;
  job.job = commit.job;
  job.epoch = epoch;
  job.commit = RandomBytes<16>();
  job.sequence = SequenceOf(commit);
  job.number = commit.number;
  job.malformed = commit.malformed;
  job.committed_at = MicrosecondsOf(ReadWallClock());
  for (const std::string& file : commit.files) {
    if (file.empty()) continue;
    const auto bytes = FindInFirst(JobStagedPrefix(commit.job) + StagedFileRest(file));
    if (bytes.status().code() == Code::kNotFound) {
      return NotFound("nothing is staged under the name " + file + " for the job '" + commit.job +
                      "': the task has not finished, the job was aborted, or nobody has staged "
                      "for six hours");
    }
    TOPICDB_RETURN_IF_ERROR(bytes.status());
    StagedFileRecord record;
    if (!Decode(*bytes, &record)) {
      return Corruption("the record of the staged file " + file + " is malformed");
    }
    for (const StagedFileRecord::Part& part : record.parts) {
      job.messages += part.messages;
      StagedChoice& choice = chosen.choices[part.shard];
      choice.epoch = epoch;
      if (choice.files.empty() || choice.files.back() != file) choice.files.push_back(file);
    }
  }
  for (const auto& [shard, choice] : chosen.choices) job.shards.push_back(shard);
  return chosen;
}

Status ClusterJobs::Decide(const Chosen& chosen, Clock::time_point deadline) {
  StagingStep choose;
  choose.kind = StagingStep::Kind::kChoose;
  choose.job = chosen.job.job;
  choose.commit = chosen.job.commit;
  for (const auto& [shard, choice] : chosen.choices) {
    choose.choice = choice;
    TOPICDB_RETURN_IF_ERROR(StageAt(*shards_, shard, choose, deadline));
  }
  ClusterCommand command;
  command.kind = ClusterCommandKind::kAddJob;
  command.job = chosen.job;
  Status added = group_.Propose(command, LeftUntil(deadline));
  // What is committed is seen here as soon as a majority is up.
  while (added.code() == Code::kUnknownOutcome && Clock::now() < deadline) {
    const ClusterState state = group_.state();
    const ClusterJob* const job = state.FindJob(chosen.job.job);
    if (job != nullptr && job->commit == chosen.job.commit) return Status::Ok();
    if (state.jobs_epoch > chosen.job.epoch) return Conflict("the jobs have changed meanwhile");
    std::this_thread::sleep_for(kLookAgainAfter);
  }
  return added.WithContext("committing the job '" + chosen.job.job + "'");
}

JobReceipt ClusterJobs::AwaitApplied(const ClusterJob& job, Clock::time_point deadline) const {
  CommitSignal& commits = *environment_->commits;
  for (;;) {
    const std::uint64_t seen = commits.count();
    JobReceipt receipt;
    bool is_repeated = true;
    for (const std::uint32_t shard : job.shards) {
      const std::shared_ptr<Replica> replica = shards_->Find(shard);
      const SharedJobs jobs = replica == nullptr ? nullptr : replica->shard()->view()->jobs();
      const meta::JobSpan* const span =
          jobs == nullptr ? nullptr : FindApplied(*jobs, job.sequence, job.number);
      if (span == nullptr) {
        receipt.pending.push_back(shard);
        continue;
      }
      receipt.serials.emplace_back(shard, span->last_serial);
      const bool is_this =
          span->number == job.number && span->committed_at == TimeAt<WallTime>(job.committed_at);
      is_repeated = is_repeated && !is_this;
    }
    receipt.repeated = is_repeated && receipt.pending.empty();
    if (receipt.pending.empty() || Clock::now() >= deadline) return receipt;
    commits.WaitUntil(seen, deadline);
  }
}

std::optional<JobReceipt> ClusterJobs::FindReceipt(const JobCommit& commit) const {
  JobReceipt receipt;
  receipt.repeated = true;
  std::set<std::uint32_t> missing;
  for (const auto& [index, replica] : shards_->All()) {
    const SharedJobs jobs = replica->shard()->view()->jobs();
    const auto found = jobs->find(SequenceOf(commit));
    if (found == jobs->end()) continue;
    const meta::JobSpan& span = found->second.last;
    if ((span.number > 0) != (commit.number > 0) || span.number < commit.number) continue;
    receipt.serials.emplace_back(index, span.last_serial);
    if (span.number != commit.number) continue;
    receipt.messages += found->second.messages;
    missing.insert(span.shards.begin(), span.shards.end());
  }
  if (receipt.serials.empty()) return std::nullopt;
  for (const auto& [shard, serial] : receipt.serials) missing.erase(shard);
  receipt.pending.assign(missing.begin(), missing.end());
  return receipt;
}

Status ClusterJobs::Abort(const std::string& job, std::chrono::microseconds timeout) {
  const auto deadline = Clock::now() + std::max<std::chrono::microseconds>(timeout, patience_);
  TOPICDB_RETURN_IF_ERROR(RemoveTree(JobDirectory(environment_->database_path, job)));
  TOPICDB_RETURN_IF_ERROR(shards_->AwaitAcknowledged(LeftUntil(deadline)));
  if (!IsStaged(job)) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(Remove(job, LeftUntil(deadline)));
  for (ClusterState state = group_.state(); Clock::now() < deadline; state = group_.state()) {
    const ClusterJob* const found = state.FindJob(job);
    if (found == nullptr || found->kind == ClusterJobKind::kCommit) break;
    AwaitChange(state, deadline);
  }
  return Status::Ok();  // once the cluster has agreed, it is aborted
}

Status ClusterJobs::Remove(const std::string& job, milliseconds patience) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kAddJob;
  command.job.kind = ClusterJobKind::kRemove;
  command.job.job = job;
  const Status added = group_.Propose(command, patience);
  // It is committed, or being removed already.
  return added.code() == Code::kConflict ? Status::Ok() : added;
}

void ClusterJobs::AwaitChange(const ClusterState& state, Clock::time_point deadline) const {
  while (group_.state().revision == state.revision && Clock::now() < deadline) {
    std::this_thread::sleep_for(kLookAgainAfter);
  }
}

bool ClusterJobs::IsStaged(const std::string& job) const {
  const std::string prefix = JobStagedPrefix(job);
  for (const auto& [index, replica] : shards_->All()) {
    const auto view = replica->shard()->view();
    const std::unique_ptr<rocksdb::Iterator> records(
        view->db()->NewIterator(rocksdb::ReadOptions()));
    records->Seek(prefix);
    if (!records->status().ok()) return true;
    if (records->Valid() && records->key().starts_with(prefix)) return true;
  }
  return false;
}

Result<std::string> ClusterJobs::FindInFirst(const std::string& key) const {
  const std::shared_ptr<Replica> replica = shards_->Find(0);
  if (replica == nullptr) return Closed("the site closes its shards");
  const auto view = replica->shard()->view();
  std::string value;
  const rocksdb::Status status = view->db()->Get(rocksdb::ReadOptions(), key, &value);
  if (status.IsNotFound()) return NotFound("there is no such record");
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "looking for what is staged"));
  return value;
}

}  // namespace topicdb::replication
