// Mends damaged logs of a RocksDB, so that it reads everything in them that is whole.
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
  bool has_lost = false;         // true: records are left out; false: all are there again
};

// Rewrites the damaged write-ahead logs of `directory`, and the manifest if that loses nothing of
// it. Flips a wrong bit in the header of a piece back, and leaves other broken records out. RocksDB
// itself would leave out all that follows a broken record in its block of 32 KiB, or in the file,
// and not say so. REQUIRES: nobody has the directory open
Result<std::vector<MendedLog>> MendLogs(const std::string& directory);

}  // namespace topicdb::rocks
