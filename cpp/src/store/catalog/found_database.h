// Finds the database in a directory.
#pragma once

#include <string>

#include "store/catalog/descriptor.h"
#include "store/catalog/retention_class.h"
#include "topicdb/status.h"

namespace topicdb {

// What a database's directory says about it. The schema's retention is that of `rules`.
struct FoundDatabase {
  Descriptor descriptor;
  RetentionRules rules;
};

// Returns the path of the file that makes a directory a database.
std::string DescriptorPath(const std::string& path);
// Returns the path of a file that exists while a database is being made. If it is still there, the
// files beside it were never used. Whoever makes or drops a database has CreationLockPath locked.
std::string CreationMarkerPath(const std::string& path);
std::string CreationLockPath(const std::string& path);
// Returns the path of the descriptor of a database that is being dropped: it is renamed to that
// before anything else goes.
std::string DropMarkerPath(const std::string& path);
// Returns the database at `path`, without opening a shard. Returns kNotFound if there is none,
// kCorruption for damaged files, for a directory that holds anything else, and if a drop was cut
// short, kSchema for a newer format, and kInvalidArgument for an invalid path.
Result<FoundDatabase> FindDatabase(const std::string& path);
// Returns OK if a database may be made in the directory: it is empty, or has what an earlier try
// has left that was interrupted. Otherwise returns kCorruption.
Status CheckCreatable(const std::string& path);

}  // namespace topicdb
