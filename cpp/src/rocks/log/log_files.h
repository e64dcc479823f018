// Finds the logs of a RocksDB in its directory, and which of them RocksDB reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"

namespace topicdb::rocks {

// Returns the path of the manifest that CURRENT names, or "" if CURRENT cannot be read: RocksDB
// will say what is wrong.
std::string ManifestOf(const std::string& directory);

// What one edit of a manifest says (db/version_edit.cc). A number is 0 if the edit does not say it.
struct EditNumbers {
  // RocksDB needs the logs from this number on. 0 for edits that name files; the last edit that a
  // flush writes is not one of these.
  std::uint64_t logs_needed_from = 0;
  // The number of the next file of any kind. It is higher than all numbers so far.
  std::uint64_t next_file = 0;
};
// Returns the numbers of an edit, as far as they come before all else in it.
EditNumbers NumbersOf(std::string_view edit);

// Returns the paths of the write-ahead logs from number `needed_from` on, the oldest first. RocksDB
// does not read the others.
Result<std::vector<std::string>> WriteAheadLogs(const std::string& directory,
                                                std::uint64_t needed_from);

}  // namespace topicdb::rocks
