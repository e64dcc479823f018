// Finds databases on disk, and drops them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/status.h"

namespace topicdb {

// What a directory is to TopicDB.
enum class DirectoryState {
  kNothing,   // it does not exist, is empty, or holds other things
  kCreating,  // a database is being made there, or the making of one was cut short
  kDatabase,  // whole or damaged
  kDropping,  // a database is being dropped there, or its drop was cut short
};

// Returns what is at `path`, without opening anything. Returns kStorage if the directory may not be
// looked into, and kInvalidArgument for an invalid path.
Result<DirectoryState> LookAtDirectory(const std::string& path);

// A directory that is something to TopicDB.
struct DatabaseEntry {
  std::string path;
  DirectoryState state;
};

// Returns the directories right below `directory` that are something to TopicDB, by path. Leaves
// out copies that are not complete (`….partial`), and directories that may not be looked into.
// Returns kNotFound if there is no such directory.
Result<std::vector<DatabaseEntry>> ListDatabases(const std::string& directory);

// What DropDatabase has removed, or would remove.
struct DroppedFiles {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// Removes the database at `path` with all that TopicDB has made in its directory, and the
// directory. It stays if something keeps it: a file that was put there since, or a file system that
// is mounted there. Also finishes a drop, and removes what is left of a creation, that was cut
// short. With `dry_run`, checks everything and removes nothing.
//
// First renames the descriptor, durably. From then on there is no database at `path`: a crash, an
// error or kInterrupted after that leaves what FindDatabase names, and another call finishes it.
//
// Returns kLocked, with a pid, while any handle, here or in another process, has the database open:
// for writing always, for reading if that process could say so (HoldDatabase). Returns kCorruption
// if anything else is in the directory, and kInvalidArgument if `path` is a symbolic link. Also
// returns kNotFound, kSchema for a newer format, and kStorage. After any of these but kStorage
// nothing is changed.
Result<DroppedFiles> DropDatabase(const std::string& path, bool dry_run,
                                  const InterruptCheck& interrupted = nullptr);

}  // namespace topicdb
