// Finds databases on disk, and drops them.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/files.h"
#include "store/care/own_files.h"
#include "store/catalog/database_hold.h"
#include "store/catalog/found_database.h"
#include "store/shard/state/shard_loader.h"
#include "topicdb/database/on_disk.h"

namespace topicdb {

namespace {

constexpr std::string_view kPartial = ".partial";

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Returns whether there is a file with this path. Unlike Exists, tells an error from an absence.
Result<bool> IsThere(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
  return ErrnoFault("looking at", path, errno);
}

// Drops one database. DropDatabase makes and owns it. Not thread-safe.
class Dropper {
 public:
  Dropper(std::string path, bool dry_run, const InterruptCheck& interrupted)
      : path_(std::move(path)), dry_run_(dry_run), interrupted_(interrupted) {}

  Result<DroppedFiles> Run() {
    TOPICDB_RETURN_IF_ERROR(CheckPath());
    TOPICDB_ASSIGN_OR_RETURN(const DirectoryState found, LookAtDirectory(path_));
    TOPICDB_RETURN_IF_ERROR(CheckIsOurs(found));
    TOPICDB_RETURN_IF_ERROR(ListFiles());
    TOPICDB_RETURN_IF_ERROR(LockAll());
    // Nobody has it open any more, and nobody opens it: what is there now is all there is.
    TOPICDB_ASSIGN_OR_RETURN(const DirectoryState state, LookAtDirectory(path_));
    TOPICDB_RETURN_IF_ERROR(CheckIsOurs(state));
    TOPICDB_RETURN_IF_ERROR(ListFiles());
    const DroppedFiles dropped{files_.files, files_.bytes};
    if (dry_run_) return dropped;
    TOPICDB_RETURN_IF_ERROR(Mark(state));
    const Status removed = RemoveAll();
    if (removed.ok() || removed.code() == Code::kInterrupted) {
      TOPICDB_RETURN_IF_ERROR(removed);
      return dropped;
    }
    return Status(removed.code(), removed.message() + "; the drop of " + path_ +
                                      " is not complete: drop it again to go on");
  }

 private:
  Status CheckPath() const {
    struct stat info{};
    if (lstat(path_.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return Status::Ok();
    return InvalidArgument("path: " + path_ +
                           " is a symbolic link: drop the database that it leads to, and remove "
                           "the link");
  }

  // Returns OK if there is something to drop. A newer TopicDB may have files that this one does not
  // know. A damaged descriptor is no reason to keep what is there.
  Status CheckIsOurs(DirectoryState state) const {
    const Status found = FindDatabase(path_).status();
    switch (state) {
      case DirectoryState::kCreating:
      case DirectoryState::kDropping:
        return Status::Ok();
      case DirectoryState::kDatabase:
        return found.code() == Code::kCorruption ? Status::Ok() : found;
      case DirectoryState::kNothing:
        break;
    }
    const bool is_nothing = found.ok() || found.code() == Code::kNotFound;
    return is_nothing ? NotFound("there is no database at " + path_) : found;
  }

  Status ListFiles() {
    auto files = ListOwnFiles(path_, interrupted_);
    if (files.status().code() == Code::kCorruption) {
      return Corruption(files.status().message() + " and drop the database again; nothing of " +
                        path_ + " was removed");
    }
    TOPICDB_RETURN_IF_ERROR(files.status());
    files_ = std::move(files).value();
    return Status::Ok();
  }

  // Takes every lock with which a database is made, opened, read, staged for and repaired. A dry
  // run makes no file for that: where there is none, nobody has it locked.
  Status LockAll() {
    TOPICDB_RETURN_IF_ERROR(Lock(CreationLockPath(path_)));
    TOPICDB_RETURN_IF_ERROR(Lock(HandlesLockPath(path_)));
    TOPICDB_RETURN_IF_ERROR(Lock(path_ + "/jobs.lock"));
    if (!IsDirectory(path_ + "/shards")) return Status::Ok();
    std::set<std::uint32_t> shards = files_.shards;
    if (const auto found = FindDatabase(path_); found.ok()) {
      for (std::uint32_t i = 0; i < found->descriptor.schema.shards; ++i) shards.insert(i);
    }
    for (const std::uint32_t shard : shards) {
      TOPICDB_RETURN_IF_ERROR(Lock(ShardDirectory(path_, shard) + ".lock"));
    }
    return Status::Ok();
  }

  Status Lock(const std::string& path) {
    if (dry_run_ && !Exists(path)) return Status::Ok();
    auto lock = FileLock::Acquire(path);
    if (lock.status().code() == Code::kLocked) {
      return Locked(lock.status().message() + ": the database " + path_ +
                    " is in use, so nothing was dropped; close it first");
    }
    TOPICDB_RETURN_IF_ERROR(lock.status());
    // Whoever has dropped the database meanwhile has removed the lock with it. Then there may be
    // another database by now, which others have locked.
    if (!(*lock)->file().CheckInPlace().ok()) {
      return Locked(path + " was removed or replaced: somebody else drops the database " + path_ +
                    " or makes one there, so nothing was dropped");
    }
    locks_.push_back(std::move(*lock));
    return Status::Ok();
  }

  // Has the directory be no database any more, durably: what is there can only be dropped.
  Status Mark(DirectoryState state) const {
    if (state == DirectoryState::kDatabase) {
      TOPICDB_RETURN_IF_ERROR(Rename(DescriptorPath(path_), DropMarkerPath(path_)));
    } else if (state == DirectoryState::kCreating) {
      TOPICDB_RETURN_IF_ERROR(Rename(CreationMarkerPath(path_), DropMarkerPath(path_)));
    }
    // A drop that a crash has cut short may not have come to this.
    return SyncDirectory(path_);
  }

  // Removes everything, the marker last. Locks go behind what they protect.
  Status RemoveAll() const {
    for (const OwnFiles::Entry& entry : files_.entries) {
      if (IsLast(entry)) continue;
      if (interrupted_ && interrupted_()) return Interrupted();
      TOPICDB_RETURN_IF_ERROR(Remove(entry));
    }
    TOPICDB_ASSIGN_OR_RETURN(const OwnFiles rest, ListOwnFiles(path_, nullptr));
    for (const OwnFiles::Entry& entry : rest.entries) {
      if (!IsMarker(entry)) TOPICDB_RETURN_IF_ERROR(Remove(entry));
    }
    // Once the marker is gone, nothing else may be there.
    TOPICDB_RETURN_IF_ERROR(SyncDirectory(path_));
    for (const OwnFiles::Entry& entry : rest.entries) TOPICDB_RETURN_IF_ERROR(Remove(entry));
    // What remains is an empty directory, unless somebody has put something there meanwhile.
    if (rmdir(path_.c_str()) != 0) return SyncDirectory(path_);
    return SyncDirectory(ParentOf(path_));
  }

  bool IsMarker(const OwnFiles::Entry& entry) const {
    return path_ + "/" + entry.path == DropMarkerPath(path_);
  }
  // Returns whether this is the marker, a lock, or the directory of locks.
  bool IsLast(const OwnFiles::Entry& entry) const {
    if (entry.is_directory) return entry.path == "shards";
    const std::string directory = ParentOf(path_ + "/" + entry.path);
    const bool has_locks = directory == path_ || directory == path_ + "/shards";
    return IsMarker(entry) || (has_locks && entry.path.ends_with(".lock"));
  }

  // It is no error if the entry is gone: the descriptor has become the marker.
  Status Remove(const OwnFiles::Entry& entry) const {
    const std::string path = path_ + "/" + entry.path;
    const int outcome = entry.is_directory ? rmdir(path.c_str()) : unlink(path.c_str());
    if (outcome == 0 || errno == ENOENT) return Status::Ok();
    return ErrnoFault("removing", path, errno);
  }

  const std::string path_;
  const bool dry_run_;
  const InterruptCheck& interrupted_;
  OwnFiles files_;
  std::vector<std::unique_ptr<FileLock>> locks_;
};

}  // namespace

Result<DirectoryState> LookAtDirectory(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgument("path: expected a path without NUL characters, got '" +
                           path.substr(0, path.find('\0')) + "'");
  }
  const std::pair<std::string, DirectoryState> marks[] = {
      {DescriptorPath(path), DirectoryState::kDatabase},
      {DropMarkerPath(path), DirectoryState::kDropping},
      {CreationMarkerPath(path), DirectoryState::kCreating},
  };
  for (const auto& [file, state] : marks) {
    TOPICDB_ASSIGN_OR_RETURN(const bool is_there, IsThere(file));
    if (is_there) return state;
  }
  return DirectoryState::kNothing;
}

Result<std::vector<DatabaseEntry>> ListDatabases(const std::string& directory) {
  TOPICDB_ASSIGN_OR_RETURN(const bool is_there, IsThere(directory));
  if (!is_there) return NotFound("there is no directory " + directory);
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  std::vector<DatabaseEntry> found;
  for (const std::string& name : names) {
    if (name.ends_with(kPartial)) continue;
    std::string path = directory.ends_with('/') ? directory + name : directory + "/" + name;
    const auto state = LookAtDirectory(path);
    if (!state.ok() || *state == DirectoryState::kNothing) continue;
    found.push_back({std::move(path), *state});
  }
  return found;
}

Result<DroppedFiles> DropDatabase(const std::string& path, bool dry_run,
                                  const InterruptCheck& interrupted) {
  return Dropper(WithoutSlashes(path), dry_run, interrupted).Run();
}

}  // namespace topicdb
