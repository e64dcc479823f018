// Makes a database in a directory.
#pragma once

#include <string>

#include "store/catalog/found_database.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// Returns the database at `path`. Makes it if there is none, unless options.read_only. Several
// processes may call this at the same time; one of them makes the database. Leaves a directory that
// holds anything else as it is. Returns the errors of FindDatabase, kSchema if the database does
// not agree with options.schema, kInvalidArgument if it does not have options.only_shards, and
// kLocked if another process takes too long to make it.
Result<FoundDatabase> FindOrCreateDatabase(const std::string& path, const OpenOptions& options);

// Makes the directory of this database without shards, which the caller makes. If it is there
// already, only replaces its retention rules if those of `database` are newer. Returns
// kInvalidArgument if the directory has another database, and the errors of FindDatabase.
Status MakeWithoutShards(const std::string& path, const FoundDatabase& database);

}  // namespace topicdb
