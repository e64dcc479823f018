// Tells the files of a database from whatever else is in its directory.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/status.h"

namespace topicdb {

// What is in the directory of a database. Paths are relative to it. Each directory comes behind all
// that is in it, so that everything can be removed in this order.
struct OwnFiles {
  struct Entry {
    std::string path;
    bool is_directory = false;
  };
  std::vector<Entry> entries;
  std::set<std::uint32_t> shards;  // that have a directory or a lock
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of the files
};

// Lists what is in the directory of a database. Knows all names that TopicDB gives to files there,
// and follows no links. Returns kCorruption, which names it, if there is anything else; kStorage,
// or kInterrupted.
Result<OwnFiles> ListOwnFiles(const std::string& path, const InterruptCheck& interrupted);

}  // namespace topicdb
