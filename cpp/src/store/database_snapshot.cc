// Copies databases: makes snapshots while a database is written, and restores them.
#include <unistd.h>

#include <map>

#include "base/file/files.h"
#include "store/care/database_copy.h"
#include "store/care/shard_attachment.h"
#include "store/database/create.h"
#include "store/database/database_impl.h"
#include "topicdb/database.h"

namespace topicdb {

namespace {

// Halts the commits to all of these shards while it lives.
class ShardsPause {
 public:
  explicit ShardsPause(const std::vector<std::shared_ptr<Shard>>& shards) : shards_(shards) {
    for (const auto& shard : shards_) shard->Pause();
  }
  ~ShardsPause() {
    for (const auto& shard : shards_) shard->Resume();
  }
  ShardsPause(const ShardsPause&) = delete;
  ShardsPause& operator=(const ShardsPause&) = delete;

 private:
  const std::vector<std::shared_ptr<Shard>>& shards_;
};

// Returns the files of all shards at one moment, by number.
Result<std::map<std::uint32_t, ShardFiles>> FilesOf(
    const std::vector<std::shared_ptr<Shard>>& shards) {
  std::map<std::uint32_t, ShardFiles> files;
  const ShardsPause pause(shards);
  for (const auto& shard : shards) {
    TOPICDB_ASSIGN_OR_RETURN(files[shard->index()], shard->FilesNow());
  }
  return files;
}

using Locks = std::vector<std::unique_ptr<FileLock>>;

// Takes the locks that writers of these shards take. Takes none in a directory that this process
// may not write.
Result<Locks> LockShards(const std::string& path, std::uint32_t shards) {
  Locks locks;
  if (access((path + "/shards").c_str(), W_OK) != 0) return locks;
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    auto lock = FileLock::Acquire(ShardDirectory(path, shard) + ".lock");
    if (lock.ok()) {
      locks.push_back(std::move(*lock));
      continue;
    }
    return Status(lock.status().code(),
                  lock.status().message() + ": close the database " + path + " first");
  }
  return locks;
}

// Takes the locks of the database that a copy replaces. Returns kExists for a directory that is no
// database.
Result<Locks> LockReplaced(const std::string& path) {
  const auto found = FindDatabase(path);
  if (found.ok()) return LockShards(path, found->descriptor.schema.shards);
  if (found.status().code() == Code::kNotFound && access(path.c_str(), F_OK) != 0) return Locks();
  return ExistsFault(path + " is no database that could be replaced (" + found.status().message() +
                     "): move it away");
}

}  // namespace

Result<SnapshotInfo> Database::MakeSnapshot(const std::string& path, const CopyOptions& options,
                                            const InterruptCheck& interrupted) {
  TOPICDB_ENTER(impl_);
  return impl_->MakeSnapshot(path, options, interrupted);
}

Result<SnapshotInfo> DatabaseImpl::MakeSnapshot(const std::string& path, const CopyOptions& options,
                                                const InterruptCheck& interrupted) {
  TOPICDB_RETURN_IF_ERROR(shards_.CheckMayWriteAll("snapshot"));
  TOPICDB_RETURN_IF_ERROR(upkeep_.CheckInPlace());
  const std::string& database_path = environment_->database_path;
  TOPICDB_ASSIGN_OR_RETURN(const auto copy,
                           DatabaseCopy::Begin(path, options, /*replaces=*/false, interrupted));
  if (shards_.is_replicated()) {
    TOPICDB_ASSIGN_OR_RETURN(SnapshotInfo info, CopyReplicas(copy.get()));
    TOPICDB_ASSIGN_OR_RETURN(info.counts, copy->Finish(database_path));
    return info;
  }
  // The copy gets no files of jobs, so the shards must have applied the jobs that are committed.
  TOPICDB_RETURN_IF_ERROR(jobs_.Apply());
  const auto shards = shards_.All();
  // Keeps the log small, which is copied. If this fails, FilesNow or the copy fails, too.
  for (const auto& shard : shards) shard->FlushMemory().IgnoreError();
  std::map<std::uint32_t, ShardFiles> files;
  {
    // At this moment no job is applied to only some of the shards, no class is being changed, and
    // no append is stored in only some of its shards.
    const MutexLock no_jobs(jobs_.mutex());
    const MutexLock no_maintenance(upkeep_.mutex());
    const PauseGate::Pause no_appends(commits_gate_);
    TOPICDB_ASSIGN_OR_RETURN(files, FilesOf(shards));
    TOPICDB_RETURN_IF_ERROR(copy->AddFile(database_path, "retention"));
  }
  SnapshotInfo info;
  for (auto& [shard, of_shard] : files) {
    TOPICDB_RETURN_IF_ERROR(copy->AddShard(shard, of_shard.files));
    of_shard.hold.reset();
    info.serials.emplace_back(shard, of_shard.serial);
  }
  // Files are found by their paths, so those of another database may have been copied since.
  TOPICDB_RETURN_IF_ERROR(upkeep_.CheckInPlace());
  TOPICDB_ASSIGN_OR_RETURN(info.counts, copy->Finish(database_path));
  return info;
}

Result<SnapshotInfo> DatabaseImpl::CopyReplicas(DatabaseCopy* copy) const {
  ShardEnvironment of_copy = *environment_;
  of_copy.directory = copy->directory();
  SnapshotInfo info;
  auto rules = environment_->rules();
  for (const auto& shard : shards_.All()) {
    {
      TOPICDB_ASSIGN_OR_RETURN(const ShardFiles files, shard->FilesOfReplica());
      TOPICDB_RETURN_IF_ERROR(copy->AddShard(shard->index(), files.files));
    }
    TOPICDB_ASSIGN_OR_RETURN(const DetachedCopy made, DetachCopy(of_copy, shard->index()));
    info.serials.emplace_back(shard->index(), made.serial);
    const bool is_newer = made.rules != nullptr && made.rules->version() > rules->version();
    if (is_newer) rules = made.rules;
  }
  TOPICDB_RETURN_IF_ERROR(copy->AddContent("retention", EncodeRetention(*rules)));
  return info;
}

Result<CopyCounts> Database::Restore(const std::string& from, const std::string& to, bool replace,
                                     const CopyOptions& options,
                                     const InterruptCheck& interrupted) {
  TOPICDB_ASSIGN_OR_RETURN(const FoundDatabase found, FindDatabase(from));
  const std::uint32_t shards = found.descriptor.schema.shards;
  TOPICDB_ASSIGN_OR_RETURN(const Locks no_writer, LockShards(from, shards));
  Locks replaced;
  if (replace) {
    TOPICDB_ASSIGN_OR_RETURN(replaced, LockReplaced(to));
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto copy, DatabaseCopy::Begin(to, options, replace, interrupted));
  TOPICDB_RETURN_IF_ERROR(copy->AddFile(from, "retention"));
  TOPICDB_RETURN_IF_ERROR(copy->AddJobs(from));
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    TOPICDB_ASSIGN_OR_RETURN(const auto files, rocks::ListClosedFiles(ShardDirectory(from, shard)));
    TOPICDB_RETURN_IF_ERROR(copy->AddShard(shard, files));
  }
  return copy->Finish(from);
}

}  // namespace topicdb
