// Commits and aborts jobs.

#include "topicdb/job.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file/files.h"
#include "store/database/create.h"
#include "store/database/database_impl.h"
#include "store/job/job_files.h"
#include "topicdb/database.h"

namespace topicdb {

namespace {

constexpr std::chrono::milliseconds kOwnerPauseMin(2);
constexpr std::chrono::milliseconds kOwnerPauseMax(100);
constexpr std::chrono::microseconds kRemovePatience = std::chrono::seconds(1);
// How long the commit of a job waits at a time for replicas to apply it.
constexpr std::chrono::microseconds kReplicasPause = std::chrono::milliseconds(500);
constexpr std::uint64_t kBytesMaxWithoutBlocks = std::uint64_t{1} << 30;
constexpr std::size_t kCommitCacheBytes = std::size_t{1} << 20;

// The bytes that a job has for each class of each shard.
using JobBytes = std::map<std::pair<std::uint32_t, RetentionClassId>, std::uint64_t>;

std::map<std::uint32_t, std::uint64_t> ByShard(const JobBytes& job) {
  std::map<std::uint32_t, std::uint64_t> by_shard;
  for (const auto& [part, bytes] : job) by_shard[part.first] += bytes;
  return by_shard;
}

// Leaves of a job the bytes of the classes whose current generations have no blocks. Looks at these
// shards as they are now, which needs no lock.
Result<JobBytes> WithoutBlocks(const std::string& path, const std::vector<std::uint32_t>& shards,
                               JobBytes job) {
  OpenOptions options;
  options.read_only = true;
  options.only_shards = shards;
  options.cache_bytes = kCommitCacheBytes;
  TOPICDB_ASSIGN_OR_RETURN(const auto database, Database::Open(path, options));
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<SlabInfo> slabs, database->upkeep().Slabs());
  for (const SlabInfo& slab : slabs) {
    if (slab.read_only || slab.layout != LayoutKind::kColumnar) continue;
    job.erase({slab.id.shard, slab.id.retention_class});
  }
  return job;
}

// Checks that a job is not too large. In generations without blocks, the messages of a job for a
// shard are one batch in memory. A rotation between this check and the commit may begin another
// layout: a shard then takes the job all the same, and the memory for it.
Status CheckSize(const std::string& path, JobBytes job) {
  std::vector<std::uint32_t> large;
  for (const auto& [shard, bytes] : ByShard(job)) {
    if (bytes > kBytesMaxWithoutBlocks) large.push_back(shard);
  }
  if (large.empty()) return Status::Ok();
  std::erase_if(job, [&](const auto& part) {
    return !std::binary_search(large.begin(), large.end(), part.first.first);
  });
  TOPICDB_ASSIGN_OR_RETURN(job, WithoutBlocks(path, large, std::move(job)));
  for (const auto& [shard, bytes] : ByShard(job)) {
    if (bytes <= kBytesMaxWithoutBlocks) continue;
    return InvalidArgument("the job has " + std::to_string(bytes) + " bytes for shard " +
                           std::to_string(shard) +
                           " in classes whose generations have the layout 'skipstream'; there a "
                           "job may have 1 GiB a shard: split it");
  }
  return Status::Ok();
}

Status CheckPart(const StagedPart& part, const std::string& directory, const Schema& schema) {
  TOPICDB_RETURN_IF_ERROR(CheckPagesFile(directory, part));
  if (part.shard < schema.shards) return Status::Ok();
  return Corruption(directory + "/" + part.pages_file +
                    " is for a shard that the database does not have");
}

// Returns the intent of a job. Checks everything that tasks have staged, so that nothing can go
// wrong once the intent is written.
Result<JobIntent> MakeIntent(const std::string& path, const JobCommit& commit,
                             const Descriptor& descriptor) {
  JobIntent intent;
  intent.database = descriptor.id;
  intent.job = commit.job;
  intent.sequence = commit.sequence.empty() ? commit.job : commit.sequence;
  intent.number = commit.number;
  intent.malformed = commit.malformed;
  const std::string directory = JobDirectory(path, commit.job);
  std::set<std::uint32_t> shards;
  JobBytes bytes;
  for (const std::string& name : commit.files) {
    if (name.empty()) continue;  // of a task without messages
    TOPICDB_ASSIGN_OR_RETURN(const StagedFile file, LoadStagedFile(directory, name));
    if (file.database != descriptor.id) {
      return Corruption(directory + "/" + name + " was staged for another database");
    }
    for (const StagedPart& part : file.parts) {
      TOPICDB_RETURN_IF_ERROR(CheckPart(part, directory, descriptor.schema));
      shards.insert(part.shard);
      intent.messages += part.messages;
      bytes[{part.shard, part.retention_class}] += part.bytes;
    }
    intent.files.push_back(name);
  }
  TOPICDB_RETURN_IF_ERROR(CheckSize(path, std::move(bytes)));
  intent.shards.assign(shards.begin(), shards.end());
  return intent;
}

// Opens these shards and closes them again, which applies the jobs that are committed. Returns
// false if another process has one of them.
Result<bool> ApplyByOpening(const std::string& path, std::vector<std::uint32_t> shards) {
  OpenOptions options;
  options.only_shards = std::move(shards);
  options.cache_bytes = kCommitCacheBytes;
  options.maintenance_interval = std::chrono::microseconds(0);
  const auto database = Database::Open(path, options);
  if (!database.ok() && database.status().code() == Code::kLocked) return false;
  TOPICDB_RETURN_IF_ERROR(database.status());
  TOPICDB_RETURN_IF_ERROR((*database)->Close());
  return true;
}

std::vector<std::uint32_t> Missing(const JobIntent& intent,
                                   const std::map<std::uint32_t, ShardOutcome>& outcomes) {
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t shard : intent.shards) {
    if (!outcomes.contains(shard)) missing.push_back(shard);
  }
  return missing;
}

Status ApplyWhereFree(const std::string& path, const std::vector<std::uint32_t>& shards) {
  TOPICDB_ASSIGN_OR_RETURN(const bool all, ApplyByOpening(path, shards));
  if (all || shards.size() == 1) return Status::Ok();
  for (const std::uint32_t shard : shards) {
    TOPICDB_RETURN_IF_ERROR(ApplyByOpening(path, {shard}).status());
  }
  return Status::Ok();
}

Status AfterCommit(const Status& status, const std::string& job) {
  return Status(status.code(), "the job '" + job + "' is committed, but not yet applied: " +
                                   status.message() + "; whoever opens the database applies it");
}

// Completes the outcomes if the intent is gone: this process was held up for so long that another
// one has removed the files. All shards have applied the intent then.
std::map<std::uint32_t, ShardOutcome> Swept(const JobIntent& intent,
                                            std::map<std::uint32_t, ShardOutcome> outcomes) {
  for (const std::uint32_t shard : intent.shards) outcomes.try_emplace(shard);
  return outcomes;
}

// Waits until every shard has applied the intent, or for at most `timeout`. Applies it here to the
// shards that no other process has. Returns the outcomes of the shards that have applied it.
Result<std::map<std::uint32_t, ShardOutcome>> Apply(const std::string& path,
                                                    const JobIntent& intent,
                                                    std::chrono::microseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto pause = kOwnerPauseMin;
  std::map<std::uint32_t, ShardOutcome> outcomes;
  while (true) {
    TOPICDB_RETURN_IF_ERROR(ApplyWhereFree(path, Missing(intent, outcomes)));
    TOPICDB_ASSIGN_OR_RETURN(const bool applied, IsApplied(path, intent, &outcomes));
    if (applied || std::chrono::steady_clock::now() >= deadline) return outcomes;
    if (!HasIntent(path, intent)) return Swept(intent, outcomes);
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kOwnerPauseMax);
  }
}

// Returns the name under which shards remember a job.
const std::string& SequenceOf(const JobCommit& commit) {
  return commit.sequence.empty() ? commit.job : commit.sequence;
}

// Returns the receipt of a job that every shard with messages of it has applied before, or of a
// later job of its sequence. Absent if no shard remembers one. Returns the error of opening the
// database, as nobody knows then whether the job was committed.
Result<std::optional<JobReceipt>> FindApplied(const std::string& path, const JobCommit& commit) {
  OpenOptions options;
  options.read_only = true;
  options.cache_bytes = kCommitCacheBytes;
  TOPICDB_ASSIGN_OR_RETURN(const auto database, Database::Open(path, options));
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<JobInfo> jobs, database->Jobs());
  JobReceipt receipt;
  receipt.repeated = true;
  for (const JobInfo& job : jobs) {
    const bool is_numbered = job.number > 0;
    if (job.sequence != SequenceOf(commit) || is_numbered != (commit.number > 0)) continue;
    if (job.number < commit.number) continue;
    receipt.serials.emplace_back(job.shard, job.last_serial);
    if (job.number == commit.number) receipt.messages += job.messages;
  }
  if (receipt.serials.empty()) return std::optional<JobReceipt>();
  return std::optional(std::move(receipt));
}

// Returns the intent that has committed a job, or else one of a later job of its sequence. Absent
// if there is neither.
// REQUIRES (FindIntent): the caller has LockJobs
Result<std::optional<JobIntent>> FindIntent(const std::string& path, const JobCommit& commit,
                                            const DatabaseId& database) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<JobIntent> intents, ListIntents(path));
  std::optional<JobIntent> found;
  for (const JobIntent& intent : intents) {
    const bool is_numbered = intent.number > 0;
    if (intent.database != database || intent.sequence != SequenceOf(commit)) continue;
    if (is_numbered != (commit.number > 0) || intent.number < commit.number) continue;
    if (!found.has_value() || intent.number < found->number) found = intent;
  }
  return found;
}

// What is known of a job once it is committed: its intent, or its receipt if it was committed and
// applied before.
struct Committed {
  std::optional<JobIntent> intent;
  JobReceipt receipt;
};

// Returns what is known of a job that was committed before. Removes what tasks have staged for it
// unless shards still need that. `fault` is what is wrong with what is staged; it is returned if
// the job was not committed before.
// REQUIRES (FindCommitted): the caller has LockJobs, and there is no intent of the job
Result<Committed> FindCommitted(const std::string& path, const JobCommit& commit,
                                const Status& fault) {
  const auto applied = FindApplied(path, commit);
  if (!applied.ok()) {
    return Status(fault.code(),
                  fault.message() + "; whether the job '" + commit.job +
                      "' was committed before is not known: " + applied.status().message());
  }
  if (!applied->has_value()) return fault;
  // A later opening removes what is left.
  RemoveTree(JobDirectory(path, commit.job)).IgnoreError();
  return Committed{std::nullopt, **applied};
}

// Checks a job and commits it by writing its intent, while nobody can remove what it has staged.
// The intent of a job without messages is not written. What is staged counts for nothing if the job
// was committed before, so a part of it, or all of it, may be gone.
Result<Committed> Commit(const std::string& path, const JobCommit& commit,
                         const Descriptor& descriptor) {
  TOPICDB_ASSIGN_OR_RETURN(const auto lock, LockJobs(path, commit.timeout));
  TOPICDB_ASSIGN_OR_RETURN(auto earlier, FindIntent(path, commit, descriptor.id));
  Committed committed;
  if (earlier.has_value()) {
    if (earlier->job != commit.job) {  // another attempt of a batch, whose messages count
      TOPICDB_RETURN_IF_ERROR(RemoveTree(JobDirectory(path, commit.job)));
    }
    committed.receipt.repeated = true;
    committed.receipt.messages = earlier->number == commit.number ? earlier->messages : 0;
    committed.intent = std::move(earlier);
    return committed;
  }
  Result<JobIntent> made = MakeIntent(path, commit, descriptor);
  const Code code = made.status().code();
  if (code == Code::kNotFound || code == Code::kCorruption) {
    return FindCommitted(path, commit, made.status());
  }
  TOPICDB_RETURN_IF_ERROR(made.status());
  committed.receipt.messages = made->messages;
  if (made->shards.empty()) return committed;
  TOPICDB_RETURN_IF_ERROR(WriteIntent(path, &*made));
  committed.intent = std::move(made).value();
  return committed;
}

// Adds to the receipt of a job what the shards have done with its intent.
void AddOutcomes(const JobIntent& intent, const std::map<std::uint32_t, ShardOutcome>& outcomes,
                 JobReceipt* receipt) {
  receipt->pending = Missing(intent, outcomes);
  bool is_repeated = receipt->pending.empty();
  for (const auto& [shard, outcome] : outcomes) {
    receipt->serials.emplace_back(shard, outcome.serial);
    is_repeated = is_repeated && outcome.repeated;
  }
  receipt->repeated = receipt->repeated || is_repeated;
}

// Removes the files of an intent that every shard has applied, unless another process commits jobs
// for too long. A later opening removes what is left: the job has not failed.
void RemoveFiles(const std::string& path, const JobIntent& intent) {
  const auto lock = LockJobs(path, kRemovePatience);
  if (lock.ok()) RemoveApplied(path, intent).IgnoreError();
}

// Returns kReadOnly if the directory is that of a site.
Status CheckIsLocal(const std::string& path) {
  if (!Exists(path + "/site/identity")) return Status::Ok();
  return ReadOnly(path +
                  " belongs to a site: commit or abort the job with the database that the site has "
                  "open, or by way of a server of the site");
}

}  // namespace

bool Database::is_replicated() const { return impl_->shards().is_replicated(); }

Status Database::ShareStaged(const std::string& job, const std::string& file) {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(CheckJobName(job));
  ReplicatedJobs* const jobs = impl_->shards().replicated_jobs();
  return jobs == nullptr ? Status::Ok() : jobs->Share(job, file);
}

Result<JobReceipt> Database::CommitJob(const JobCommit& commit) {
  TOPICDB_RETURN_IF_ERROR(CheckJobCommit(commit));
  if (!is_replicated()) return topicdb::CommitJob(impl_->environment().database_path, commit);
  const auto deadline = std::chrono::steady_clock::now() + commit.timeout;
  std::optional<JobReceipt> first;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
        deadline - std::chrono::steady_clock::now());
    JobCommit step = commit;
    step.timeout = std::clamp(left, std::chrono::microseconds(0), kReplicasPause);
    JobReceipt receipt;
    {
      TOPICDB_ENTER(impl_);  // so that whoever closes the database waits no longer
      TOPICDB_ASSIGN_OR_RETURN(receipt, impl_->shards().replicated_jobs()->Commit(step));
    }
    if (!first.has_value()) first = receipt;
    receipt.messages = first->messages;
    receipt.repeated = first->repeated;
    if (receipt.pending.empty() || left <= kReplicasPause) return receipt;
  }
}

Status Database::AbortJob(const std::string& job, std::chrono::microseconds timeout) {
  TOPICDB_RETURN_IF_ERROR(CheckJobName(job));
  if (!is_replicated()) {
    return topicdb::AbortJob(impl_->environment().database_path, job, timeout);
  }
  TOPICDB_ENTER(impl_);
  return impl_->shards().replicated_jobs()->Abort(job, timeout);
}

Result<JobReceipt> CommitJob(const std::string& path, const JobCommit& commit) {
  TOPICDB_RETURN_IF_ERROR(CheckJobCommit(commit));
  TOPICDB_ASSIGN_OR_RETURN(const FoundDatabase found, FindDatabase(path));
  TOPICDB_RETURN_IF_ERROR(CheckIsLocal(path));
  TOPICDB_ASSIGN_OR_RETURN(Committed committed, Commit(path, commit, found.descriptor));
  JobReceipt receipt = std::move(committed.receipt);
  if (!committed.intent.has_value()) {
    if (!receipt.repeated) TOPICDB_RETURN_IF_ERROR(AbortJob(path, commit.job));
    return receipt;
  }
  const JobIntent& intent = *committed.intent;
  const auto outcomes = Apply(path, intent, commit.timeout);
  if (!outcomes.ok()) return AfterCommit(outcomes.status(), commit.job);
  AddOutcomes(intent, *outcomes, &receipt);
  if (receipt.pending.empty()) RemoveFiles(path, intent);
  return receipt;
}

Status AbortJob(const std::string& path, const std::string& job,
                std::chrono::microseconds timeout) {
  TOPICDB_RETURN_IF_ERROR(CheckJobName(job));
  TOPICDB_RETURN_IF_ERROR(CheckIsLocal(path));
  if (!IsDirectory(JobDirectory(path, job))) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(const auto lock, LockJobs(path, timeout));
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<JobIntent> intents, ListIntents(path));
  const bool is_committed = std::any_of(intents.begin(), intents.end(),
                                        [&](const JobIntent& intent) { return intent.job == job; });
  if (is_committed) return Status::Ok();
  return RemoveTree(JobDirectory(path, job));
}

}  // namespace topicdb
