#include "store/database/database_jobs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file/files.h"
#include "store/database/create.h"

namespace topicdb {

namespace {

// Returns what the tasks have staged for one shard.
Result<StagedMessages> StagedFor(const std::string& path, const JobIntent& intent,
                                 WallTime pending_since, std::uint32_t shard) {
  StagedMessages staged;
  staged.directory = JobDirectory(path, intent.job);
  staged.sequence = intent.sequence;
  staged.number = intent.number;
  staged.malformed = intent.malformed;
  staged.committed_at = CommittedAt(intent);
  staged.pending_since = pending_since;
  staged.shards = intent.shards;
  for (const std::string& name : intent.files) {
    TOPICDB_ASSIGN_OR_RETURN(StagedFile file, LoadStagedFile(staged.directory, name));
    for (StagedPart& part : file.parts) {
      if (part.shard == shard) staged.parts.push_back(std::move(part));
    }
  }
  return staged;
}

}  // namespace

Status DatabaseJobs::Apply() {
  const MutexLock lock(mutex_);
  const std::string& path = environment_->database_path;
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<JobIntent> intents, ListIntents(path));
  // Whoever wrote the intent may not have synced the directory yet. No shard may have messages of
  // an intent that a loss of power could still remove.
  if (!intents.empty()) TOPICDB_RETURN_IF_ERROR(SyncDirectory(JobsDirectory(path)));
  for (const JobIntent& intent : intents) {
    if (intent.database != environment_->database) {
      return Corruption(JobsDirectory(path) + "/" + intent.name +
                        ".intent belongs to another database: remove it");
    }
    for (const auto& shard : shards_.All()) {
      const bool concerns =
          std::binary_search(intent.shards.begin(), intent.shards.end(), shard->index());
      if (!concerns) continue;
      TOPICDB_ASSIGN_OR_RETURN(const auto outcome, FindOutcome(path, intent, shard->index()));
      if (outcome.has_value()) continue;
      TOPICDB_RETURN_IF_ERROR(ApplyTo(shard.get(), intent, CommittedAt(intents.front())));
    }
  }
  return Status::Ok();
}

Status DatabaseJobs::ApplyTo(Shard* shard, const JobIntent& intent, WallTime pending_since) {
  const std::string& path = environment_->database_path;
  // The staged files may be gone: whoever committed the job twice may have removed them when the
  // first of the two intents was applied.
  const SharedJobs jobs = shard->view()->jobs();
  if (const auto* const applied = FindApplied(*jobs, intent.sequence, intent.number)) {
    // The shard may have applied this very intent, without the time to write its outcome.
    const bool is_this =
        applied->number == intent.number && applied->committed_at == CommittedAt(intent);
    return WriteOutcome(path, intent, shard->index(), {applied->last_serial, !is_this});
  }
  TOPICDB_ASSIGN_OR_RETURN(const StagedMessages staged,
                           StagedFor(path, intent, pending_since, shard->index()));
  ShardCommit commit;
  commit.durability = Durability::kDisk;
  commit.staged = &staged;
  shard->Commit(&commit);
  TOPICDB_RETURN_IF_ERROR(commit.status);
  return WriteOutcome(path, intent, shard->index(), {commit.serial, commit.repeated});
}

Status DatabaseJobs::Start() {
  const std::string& path = environment_->database_path;
  if (shards_.is_replicated()) return SweepJobs(path, ReadWallClock());
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(JobsDirectory(path)));
  TOPICDB_RETURN_IF_ERROR(Apply());
  for (const auto& shard : shards_.All()) {
    TOPICDB_RETURN_IF_ERROR(shard->RemoveUnplaced());
    TOPICDB_RETURN_IF_ERROR(shard->ForgetJobs());
  }
  const auto shards = shards_.All();
  TOPICDB_RETURN_IF_ERROR(SweepJobs(
      path, shards.empty() ? ReadWallClock() : shards.front()->clock().Look().believed_time));
  TOPICDB_ASSIGN_OR_RETURN(watcher_, JobWatcher::Start(JobsDirectory(path), [this] {
                             if (closing_.load()) return;
                             Apply().IgnoreError();  // the next opening tells what is wrong
                           }));
  return Status::Ok();
}

}  // namespace topicdb
