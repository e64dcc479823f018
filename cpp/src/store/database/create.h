// Makes a database in a directory.
#pragma once

#include <string>

#include "store/catalog/found_database.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// Returns the database at `path`, which must agree with options.schema. Makes it if there is none,
// unless options.read_only. Fails as FindDatabase does. Leaves a directory that holds anything else
// as it is.
Result<FoundDatabase> FindOrCreateDatabase(const std::string& path, const OpenOptions& options);

}  // namespace topicdb
