// Finding the database in a directory, or making it there.
#pragma once

#include <string>

#include "store/descriptor.h"
#include "store/retention_class.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// What its directory says of a database. The schema's retention is that of the rules.
struct FoundDatabase {
  Descriptor descriptor;
  RetentionRules rules;
};

// The database at `path`, which must be there; opens no shard. kNotFound, and as below.
Result<FoundDatabase> FindDatabase(const std::string& path);
// The same with options.schema to agree with; but the database is created there unless
// options.read_only. A directory that holds anything else is left as it is: kCorruption.
// kInvalidArgument for a path that is none.
Result<FoundDatabase> FindOrCreateDatabase(const std::string& path, const OpenOptions& options);

}  // namespace topicdb
