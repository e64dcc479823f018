// Snapshots and other copies of a database.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topicdb {

// How the files of a database are copied. Table files never change once they are written. Where
// possible, a copy has them under another name, and they take no space of their own.
struct CopyOptions {
  // An earlier copy of the same database. The files that it has are linked from there instead of
  // copied. For copies on another file system.
  std::optional<std::string> base;
  // Copies every byte. Otherwise damage to a file is also damage to its other names.
  bool copies_all = false;
};

struct CopyCounts {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of all files
  std::uint64_t copied_bytes = 0;
};

struct SnapshotInfo {
  // (shard, its last commit in the snapshot), by shard.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> serials;
  CopyCounts counts;
};

}  // namespace topicdb
