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
// Returns the database at `path`, without opening a shard. Returns kNotFound if there is none,
// kCorruption for damaged files and for a directory that holds anything else, kSchema for a newer
// format, and kInvalidArgument for an invalid path.
Result<FoundDatabase> FindDatabase(const std::string& path);
// Returns OK if a database may be made in the directory: it is empty, or has what an earlier try
// has left that was interrupted. Otherwise returns kCorruption.
Status CheckCreatable(const std::string& path);

}  // namespace topicdb
