// Which files of a directory of RocksDB are its logs, and which of them it reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"

namespace topicdb::rocks {

// The manifest that CURRENT names. "" if that cannot be read: RocksDB will say what is wrong.
std::string ManifestOf(const std::string& directory);

// What one edit of a manifest says (db/version_edit.cc); 0 where it does not say.
struct EditNumbers {
  // From which log on RocksDB needs them. Only of edits that name no files: what flushing has
  // written last is one of these.
  std::uint64_t logs_needed_from = 0;
  // The number that the next file gets, whatever it is: it is higher than all that there were.
  std::uint64_t next_file = 0;
};
EditNumbers NumbersOf(std::string_view edit);

// Paths of write-ahead logs, the oldest first: those that are needed, RocksDB does not read others.
Result<std::vector<std::string>> WriteAheadLogs(const std::string& directory,
                                                std::uint64_t needed_from);

}  // namespace topicdb::rocks
