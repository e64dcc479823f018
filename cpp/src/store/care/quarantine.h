// Where damaged shards are kept aside.
#pragma once

#include <string>

#include "topicdb/status.h"

namespace topicdb {

// Makes a new directory `<database>/quarantine/<time>`, durably, and returns its path. Names sort
// by time, and no two are the same.
Result<std::string> MakeQuarantine(const std::string& database_path);

}  // namespace topicdb
