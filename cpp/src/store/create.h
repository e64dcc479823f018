// Finding the database in a directory, or making it there.
#pragma once

#include <string>

#include "store/descriptor.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// The descriptor of the database at `path`, which is created there unless options.read_only. A
// directory that holds anything else is left as it is: kCorruption.
Result<Descriptor> FindOrCreateDatabase(const std::string& path, const OpenOptions& options);

}  // namespace topicdb
