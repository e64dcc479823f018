// Snapshots and other copies of a database.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topicdb/types/numbers.h"

namespace topicdb {

// Says how to copy the files of a database. Table files never change once they are written. Where
// the file system can, a copy links them instead of copying them. A linked file has one more name
// and takes no space of its own.
struct CopyOptions {
  // The path of an earlier copy of the same database, from which the new copy links the files that
  // are the same. It is for copies on another file system than the database.
  std::optional<std::string> base;
  // If true, the copy links no files of the database, only those of `base`. Damage to a linked file
  // is damage under all of its names.
  bool copies_all = false;
};

// What a copy consists of.
struct CopyCounts {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;         // of all files
  std::uint64_t copied_bytes = 0;  // of the files that were copied and not linked
};

// Describes a snapshot that was made.
struct SnapshotInfo {
  // Pairs of a shard and the serial of its last commit in the snapshot, in the order of shards.
  std::vector<std::pair<std::uint32_t, Serial>> serials;
  CopyCounts counts;
};

}  // namespace topicdb
