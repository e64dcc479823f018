// Commits and aborts jobs.

#include "topicdb/job.h"

#include <algorithm>
#include <map>
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
  std::set<std::string> files;
  JobBytes bytes;
  for (const std::string& name : commit.files) {
    if (name.empty()) continue;  // of a task without messages
    const bool is_name = name.find('/') == std::string::npos && name.ends_with(".staged");
    if (!is_name || !files.insert(name).second) {
      return InvalidArgument("files: '" + name + "' is no name of a staged file, or comes twice");
    }
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

// Returns the receipt of a job that was committed before, so that its files are gone. Absent if the
// database does not know the job.
std::optional<JobReceipt> FindApplied(const std::string& path, const JobCommit& commit) {
  OpenOptions options;
  options.read_only = true;
  options.cache_bytes = kCommitCacheBytes;
  const auto database = Database::Open(path, options);
  if (!database.ok()) return std::nullopt;
  const auto jobs = (*database)->Jobs();
  if (!jobs.ok()) return std::nullopt;
  const std::string& name = commit.sequence.empty() ? commit.job : commit.sequence;
  JobReceipt receipt;
  receipt.repeated = true;
  for (const JobInfo& job : *jobs) {
    const bool is_numbered = job.number > 0;
    if (job.sequence != name || is_numbered != (commit.number > 0)) continue;
    if (job.number < commit.number) continue;
    receipt.serials.emplace_back(job.shard, job.last_serial);
    if (job.number == commit.number) receipt.messages += job.messages;
  }
  if (receipt.serials.empty()) return std::nullopt;
  return receipt;
}

// Checks a job and commits it by writing its intent, while nobody can remove what it has staged.
// The intent of a job without messages is not written.
Result<JobIntent> Commit(const std::string& path, const JobCommit& commit,
                         const Descriptor& descriptor) {
  TOPICDB_ASSIGN_OR_RETURN(const auto lock, LockJobs(path, commit.timeout));
  TOPICDB_ASSIGN_OR_RETURN(JobIntent intent, MakeIntent(path, commit, descriptor));
  if (!intent.shards.empty()) TOPICDB_RETURN_IF_ERROR(WriteIntent(path, &intent));
  return intent;
}

}  // namespace

Result<JobReceipt> CommitJob(const std::string& path, const JobCommit& commit) {
  TOPICDB_RETURN_IF_ERROR(CheckJobName(commit.job));
  if (!commit.sequence.empty()) TOPICDB_RETURN_IF_ERROR(CheckJobName(commit.sequence));
  if (commit.sequence.empty() != (commit.number == 0)) {
    return InvalidArgument("number: a job of a sequence has one, from 1 on; others have none");
  }
  TOPICDB_ASSIGN_OR_RETURN(const FoundDatabase found, FindDatabase(path));
  Result<JobIntent> made = Commit(path, commit, found.descriptor);
  if (made.status().code() == Code::kNotFound) {
    if (auto receipt = FindApplied(path, commit)) return std::move(*receipt);
  }
  TOPICDB_RETURN_IF_ERROR(made.status());
  const JobIntent intent = std::move(made).value();
  JobReceipt receipt;
  receipt.messages = intent.messages;
  if (intent.shards.empty()) {
    TOPICDB_RETURN_IF_ERROR(AbortJob(path, commit.job));
    return receipt;
  }
  const auto outcomes = Apply(path, intent, commit.timeout);
  if (!outcomes.ok()) return AfterCommit(outcomes.status(), commit.job);
  receipt.pending = Missing(intent, *outcomes);
  receipt.repeated = receipt.pending.empty();
  for (const auto& [shard, outcome] : *outcomes) {
    receipt.serials.emplace_back(shard, outcome.serial);
    receipt.repeated = receipt.repeated && outcome.repeated;
  }
  // The job is committed and applied, so it has not failed if its files cannot be removed now. A
  // later opening removes them.
  if (receipt.pending.empty()) RemoveApplied(path, intent).IgnoreError();
  return receipt;
}

Status AbortJob(const std::string& path, const std::string& job,
                std::chrono::microseconds timeout) {
  TOPICDB_RETURN_IF_ERROR(CheckJobName(job));
  if (!IsDirectory(JobDirectory(path, job))) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(const auto lock, LockJobs(path, timeout));
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<JobIntent> intents, ListIntents(path));
  const bool is_committed = std::any_of(intents.begin(), intents.end(),
                                        [&](const JobIntent& intent) { return intent.job == job; });
  if (is_committed) return Status::Ok();
  return RemoveTree(JobDirectory(path, job));
}

}  // namespace topicdb
