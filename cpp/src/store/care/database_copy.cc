#include "store/care/database_copy.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/file/file.h"
#include "base/file/file_copy.h"
#include "base/file/files.h"
#include "store/catalog/database_hold.h"
#include "store/shard/shard.h"

namespace topicdb {

namespace {

// The names that a copy makes in its directory.
constexpr std::array<std::string_view, 5> kNames{"TOPICDB", "handles.lock", "jobs", "retention",
                                                 "shards"};

// Returns whether there is anything at `path`, which may be a link that leads nowhere.
bool IsTaken(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0;
}

Status WriteNewFile(const std::string& path, const std::string& content) {
  TOPICDB_ASSIGN_OR_RETURN(const auto file, File::Create(path));
  TOPICDB_RETURN_IF_ERROR(file->WriteAt(0, content));
  return file->Sync();
}

// Removes what a copy has left that was interrupted. Returns kExists if there is anything else.
Status RemoveLeftover(const std::string& partial) {
  if (!IsTaken(partial)) return Status::Ok();
  const auto names = ListDirectory(partial);
  const bool is_ours =
      names.ok() && std::all_of(names->begin(), names->end(), [](const std::string& name) {
        return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
      });
  if (!is_ours) {
    return ExistsFault(partial + " is in the way, and not what a copy has left: remove it");
  }
  return RemoveTree(partial);
}

}  // namespace

DatabaseCopy::DatabaseCopy(std::string path, const CopyOptions& options, bool replaces,
                           InterruptCheck interrupted)
    : path_(std::move(path)),
      partial_(path_ + ".partial"),
      options_(options),
      replaces_(replaces),
      interrupted_(std::move(interrupted)) {}

Result<std::unique_ptr<DatabaseCopy>> DatabaseCopy::Begin(const std::string& path,
                                                          const CopyOptions& options, bool replaces,
                                                          InterruptCheck interrupted) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgument("path: expected a path without NUL characters");
  }
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (!replaces && IsTaken(name)) {
    return ExistsFault(name + " exists: choose a path where there is nothing, or move it away");
  }
  TOPICDB_RETURN_IF_ERROR(RemoveLeftover(name + ".partial"));
  auto copy = std::unique_ptr<DatabaseCopy>(
      new DatabaseCopy(std::move(name), options, replaces, std::move(interrupted)));
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(copy->partial_));
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(copy->partial_ + "/shards"));
  return copy;
}

DatabaseCopy::~DatabaseCopy() {
  if (!finished_) RemoveTree(partial_).IgnoreError();
}

Status DatabaseCopy::Add(const std::string& relative, const rocks::LiveFile& file) {
  const std::string target = partial_ + "/" + relative;
  ++counts_.files;
  counts_.bytes += file.bytes;
  if (interrupted_ && interrupted_()) return Interrupted();
  if (file.immutable && !options_.copies_all) {
    TOPICDB_ASSIGN_OR_RETURN(const bool linked, LinkFile(file.path, target));
    if (linked) return Status::Ok();
  }
  if (file.immutable && options_.base.has_value()) {
    const std::string known = *options_.base + "/" + relative;
    if (HaveSameEnd(file.path, known)) {
      TOPICDB_ASSIGN_OR_RETURN(const bool linked, LinkFile(known, target));
      if (linked) return Status::Ok();
    }
  }
  counts_.copied_bytes += file.bytes;
  if (!file.content.empty()) return WriteNewFile(target, file.content);
  return CopyFile(file.path, target, file.bytes, interrupted_);
}

Status DatabaseCopy::AddShard(std::uint32_t shard, const std::vector<rocks::LiveFile>& files) {
  const std::string directory = ShardDirectory(partial_, shard);
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory));
  const std::string relative = directory.substr(partial_.size() + 1) + "/";
  for (const rocks::LiveFile& file : files) {
    TOPICDB_RETURN_IF_ERROR(Add(relative + file.name, file));
  }
  return Status::Ok();
}

Status DatabaseCopy::AddFile(const std::string& database_path, const std::string& name) {
  rocks::LiveFile file{database_path + "/" + name, name, 0, false, {}};
  struct stat info{};
  if (stat(file.path.c_str(), &info) != 0) {
    return errno == ENOENT ? Status::Ok() : ErrnoFault("looking at", file.path, errno);
  }
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  return Add(name, file);
}

Status DatabaseCopy::AddContent(const std::string& name, const std::string& content) {
  return Add(name, {{}, name, content.size(), /*immutable=*/false, content});
}

Status DatabaseCopy::AddJobs(const std::string& database_path) {
  const std::string jobs = database_path + "/jobs";
  if (!IsTaken(jobs)) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(partial_ + "/jobs"));
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(jobs));
  for (const std::string& name : names) {
    struct stat info{};
    if (stat((jobs + "/" + name).c_str(), &info) != 0) continue;  // applied, and gone
    const bool is_job = S_ISDIR(info.st_mode);
    if (is_job) TOPICDB_RETURN_IF_ERROR(MakeDirectory(partial_ + "/jobs/" + name));
    TOPICDB_ASSIGN_OR_RETURN(
        const std::vector<std::string> files,
        is_job ? ListDirectory(jobs + "/" + name) : Result<std::vector<std::string>>({""}));
    for (const std::string& file : files) {
      const std::string relative = "jobs/" + name + (is_job ? "/" + file : "");
      TOPICDB_RETURN_IF_ERROR(AddFile(database_path, relative));
    }
  }
  return Status::Ok();
}

Result<CopyCounts> DatabaseCopy::Finish(const std::string& database_path) {
  TOPICDB_RETURN_IF_ERROR(CreateIfMissing(HandlesLockPath(partial_)));
  TOPICDB_RETURN_IF_ERROR(SyncTree(partial_));
  // The descriptor comes last: without it, the directory is no database.
  TOPICDB_RETURN_IF_ERROR(AddFile(database_path, "TOPICDB"));
  TOPICDB_RETURN_IF_ERROR(SyncDirectory(partial_));
  const bool exchanges = replaces_ && IsTaken(path_);
  if (exchanges) {
    TOPICDB_RETURN_IF_ERROR(Exchange(partial_, path_));
  } else {
    TOPICDB_RETURN_IF_ERROR(Rename(partial_, path_));
  }
  finished_ = true;
  TOPICDB_RETURN_IF_ERROR(SyncDirectory(path_ + "/.."));
  if (exchanges) TOPICDB_RETURN_IF_ERROR(RemoveTree(partial_));
  return counts_;
}

}  // namespace topicdb
