// Snapshots and other copies of a database.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topicdb {

// How the files of a database are copied. Table files never change once they are written: where it
// can be, a copy has them under another name, and they take no space of their own.
struct CopyOptions {
  // An earlier copy of the same database: what it has is linked from there, not copied. For copies
  // on another file system.
  std::optional<std::string> base;
  bool copies_all = false;  // every byte: damage to a file would be damage to its other names
};

struct CopyCounts {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of all
  std::uint64_t copied_bytes = 0;
};

struct SnapshotInfo {
  // (shard, its last commit that is in the snapshot), by shard.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> serials;
  CopyCounts counts;
};

}  // namespace topicdb
