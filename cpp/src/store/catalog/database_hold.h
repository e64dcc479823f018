// Says that a database is in use, so that nobody drops it.
#pragma once

#include <memory>
#include <string>

#include "base/file/files.h"
#include "topicdb/status.h"

namespace topicdb {

// Returns the path of a file of which each handle of a database, and whoever reads or stages there,
// has a SharedFileLock. Whoever drops the database has a FileLock of it.
std::string HandlesLockPath(const std::string& path);

// Who holds a database. A reader leaves the directory as it is: it makes no file there.
enum class HolderKind { kReader, kWriter };

// Says that the database at `path` is in use as long as the result lives, and that it is still
// there. Returns null if that cannot be said: the file cannot be made or read, or the file system
// has no locks. The database may be dropped then although it is in use. Returns kLocked, with the
// pid, while somebody drops the database, and the errors of FindDatabase if it is gone.
Result<std::unique_ptr<SharedFileLock>> HoldDatabase(const std::string& path, HolderKind kind);

}  // namespace topicdb
