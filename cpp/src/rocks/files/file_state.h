// What can be seen from outside of the changes that a writer makes to a RocksDB.
#pragma once

#include <string>

namespace topicdb::rocks {

enum class StateFiles {
  kManifest,  // changes when table files come or go
  kLogsToo,   // changes with each write
};

// Names, sizes and times of those files, to be compared with what they were at another time; empty
// if they cannot be read. RocksDB's logs are preallocated without changing their size.
std::string StateOf(const std::string& directory, StateFiles files);

}  // namespace topicdb::rocks
