// What was removed from a column family and still takes space, in files or in memory.
#pragma once

#include <atomic>
#include <cstdint>

#include <rocksdb/db.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

struct FamilyGarbage {
  std::uint64_t removed = 0;     // keys that were removed, as far as merging has not forgotten them
  std::uint64_t written = 0;     // keys with values in files, those that were removed since, too
  std::uint64_t file_bytes = 0;  // of all

  // What the removed ones take in files, if all keys take about as much.
  std::uint64_t bytes() const {
    if (removed == 0 || written == 0) return 0;
    const double part =
        removed < written ? static_cast<double>(removed) / static_cast<double>(written) : 1.0;
    return static_cast<std::uint64_t>(part * static_cast<double>(file_bytes));
  }
};
FamilyGarbage MeasureGarbage(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family);

// No reader has a snapshot from before this sequence number. A database without snapshots has none
// that is older than its last write.
std::uint64_t OldestSnapshot(rocksdb::DB* db);

// Writes the files of the family anew, without what no snapshot sees any more. Other families go on
// being merged meanwhile. `canceled` ends it early, which is no error; nor is that the family was
// dropped. What is in memory should be flushed before. kStorage, kCorruption.
Status RemoveGarbage(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family,
                     std::atomic<bool>* canceled);

}  // namespace topicdb::rocks
