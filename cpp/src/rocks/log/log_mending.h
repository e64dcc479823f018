// Makes damaged logs of a RocksDB such that it reads all of them that is whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topicdb/status.h"

namespace topicdb::rocks {

// A log that was damaged.
struct MendedLog {
  std::string name;
  std::uint64_t damaged_at = 0;  // the first damage: a byte of the file
  bool has_lost = false;         // records are left out; else all are there again
};

// Writes the write-ahead logs of `directory` anew that are damaged, and the manifest if nothing of
// it is lost by that: a bit that is flipped in the header of a piece is flipped back, and other
// broken records are left out. RocksDB itself leaves out all that follows one in a block of 32 KiB,
// or in the file, and does not say so. Nobody may have the directory open.
Result<std::vector<MendedLog>> MendLogs(const std::string& directory);

}  // namespace topicdb::rocks
