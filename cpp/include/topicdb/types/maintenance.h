// What is kept for how long, and what was dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topicdb/types/iterator.h"
#include "topicdb/types/times.h"

namespace topicdb {

// How much a slab takes on disk.
struct SlabUsage {
  SlabInfo slab;
  std::uint64_t disk_bytes = 0;  // of its files, and of what will go there
  // The part of disk_bytes that was removed but is still in files; an estimate. Maintenance frees
  // it.
  std::uint64_t garbage_bytes = 0;
};

// How much the messages of one structure take in a class, over the open shards. Deleted messages
// count until they are gone. Bytes are estimates. With the layout skipstream, the number of
// messages is one, too.
struct StructureUsage {
  std::string retention_class;
  std::string structure;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;       // of topics and values
  std::uint64_t disk_bytes = 0;  // its part of the files
};

// Says why a slab was dropped. kKeepLast: the class has no age and no size, only keep_last.
enum class SlabDropReason : std::uint8_t { kAge = 1, kBytes = 2, kQuota = 3, kKeepLast = 4 };

// A slab that maintenance has dropped.
struct DroppedSlab {
  SlabUsage usage;
  SlabDropReason reason = SlabDropReason::kAge;
};

// What one run of maintenance has done.
struct Maintenance {
  std::uint64_t rotated = 0;  // generations that were started
  std::vector<DroppedSlab> dropped;
  std::uint64_t kept = 0;  // messages of dropped slabs that keep_last has put into new slabs
};

// The quota of an open database, and how much counts against it.
struct QuotaState {
  std::uint64_t quota_bytes = 0;  // 0: there is no quota
  double quota_trim = 0;          // part of the quota; 0: nothing is dropped for the quota
  std::uint64_t disk_bytes = 0;   // of the open shards; measured once a second
};

// What Database::Trim has removed.
struct TrimCount {
  std::vector<SlabInfo> slabs;  // that were dropped as a whole
  std::uint64_t messages = 0;   // that were removed one by one
};

// What the thread for maintenance has done since the database was opened.
struct MaintenanceStats {
  std::uint64_t runs = 0;
  std::optional<WallTime> last_run;  // absent: none has run
  std::uint64_t rotated = 0;
  std::uint64_t dropped_slabs = 0;
  std::uint64_t dropped_messages = 0;
  std::uint64_t dropped_bytes = 0;  // of files
  std::uint64_t kept_messages = 0;  // messages of dropped slabs that were kept
  std::string error;                // of the last run; empty if it succeeded
};

}  // namespace topicdb
