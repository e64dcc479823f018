// Finding the database in a directory.
#pragma once

#include <string>

#include "store/catalog/descriptor.h"
#include "store/catalog/retention_class.h"
#include "topicdb/status.h"

namespace topicdb {

// What its directory says of a database. The schema's retention is that of the rules.
struct FoundDatabase {
  Descriptor descriptor;
  RetentionRules rules;
};

// The file that makes a directory a database.
std::string DescriptorPath(const std::string& path);
// The database at `path`; opens no shard. kNotFound; kCorruption for a directory that holds
// anything else; kInvalidArgument for a path that is none.
Result<FoundDatabase> FindDatabase(const std::string& path);
// Whether a database may be made in the directory: it is empty, or an earlier try was cut short.
// kCorruption
Status CheckCreatable(const std::string& path);

}  // namespace topicdb
