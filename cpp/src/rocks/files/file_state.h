// Shows from outside whether a writer has changed a RocksDB.
#pragma once

#include <string>

namespace topicdb::rocks {

// The files that StateOf looks at.
enum class StateFiles {
  kManifest,  // changes when table files come or go
  kLogsToo,   // changes with each write
};

// Returns the names, sizes and times of these files, for the caller to compare with an earlier
// result; empty if they cannot be read. RocksDB preallocates its logs without changing their size.
std::string StateOf(const std::string& directory, StateFiles files);

}  // namespace topicdb::rocks
