// Makes a local database that of a cluster.
#pragma once

#include <string>

#include "topicdb/status.h"

namespace topicdb::replication {

// Makes the shards of a local database the first replicas of a cluster that its site founds alone.
// Its content is what the first entry of each log stands for, so sites that join get it as a
// snapshot. Opens the database once as usual, which completes what a crash has left.
//
// A call that was interrupted is repeated. Once this has returned, and the site has an identity,
// nobody but the site writes the database. Does nothing if it has one. Returns kLocked if somebody
// has the database open, and what FindDatabase and Database::Open return.
Status ConvertDatabase(const std::string& path);

// Removes what tells that a conversion is under way. The site calls it once it has its identity.
Status FinishConversion(const std::string& path);

// Returns whether a conversion of this directory has begun and is not finished.
bool IsBeingConverted(const std::string& path);

}  // namespace topicdb::replication
