#include "store/catalog/database_hold.h"

#include "store/catalog/found_database.h"

namespace topicdb {

namespace {

// The file may be removed, with the whole database, between its locking and the look at it.
constexpr int kAttemptsMax = 100;

}  // namespace

std::string HandlesLockPath(const std::string& path) { return path + "/handles.lock"; }

Result<std::unique_ptr<SharedFileLock>> HoldDatabase(const std::string& path, HolderKind kind) {
  std::unique_ptr<SharedFileLock> hold;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    // Where the file cannot be made, there is none to be locked.
    if (kind == HolderKind::kWriter) CreateIfMissing(HandlesLockPath(path)).IgnoreError();
    auto lock = SharedFileLock::Acquire(HandlesLockPath(path));
    if (lock.status().code() == Code::kLocked) {
      return Locked(lock.status().message() + ", which drops the database " + path);
    }
    if (!Exists(DescriptorPath(path))) {
      TOPICDB_RETURN_IF_ERROR(FindDatabase(path).status());
      continue;  // it was made anew since
    }
    if (!lock.ok()) return hold;
    if (!(*lock)->file().CheckInPlace().ok()) continue;
    hold = std::move(*lock);
    return hold;
  }
  return Locked(path + " is being dropped and made again all the time");
}

}  // namespace topicdb
