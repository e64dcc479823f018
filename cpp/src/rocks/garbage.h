// Finds and removes garbage: what was removed from a column family and still takes space, in files
// or in memory.
#pragma once

#include <atomic>
#include <cstdint>

#include <rocksdb/db.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// How much of a column family is garbage.
struct FamilyGarbage {
  std::uint64_t removed = 0;     // removed keys that merging has not forgotten yet
  std::uint64_t written = 0;     // keys with values in files, including those removed since
  std::uint64_t file_bytes = 0;  // of all files

  // Returns the bytes that the removed keys take in files, if all keys take about as much.
  std::uint64_t bytes() const {
    if (removed == 0 || written == 0) return 0;
    const double part =
        removed < written ? static_cast<double>(removed) / static_cast<double>(written) : 1.0;
    return static_cast<std::uint64_t>(part * static_cast<double>(file_bytes));
  }
};
// Returns how much garbage a family has now. Reads no keys.
FamilyGarbage MeasureGarbage(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family);

// Returns a sequence number before which no reader has a snapshot. If there are no snapshots, that
// is the number of the last write.
std::uint64_t OldestSnapshot(rocksdb::DB* db);

// Rewrites the files of the family without what no snapshot sees any more. RocksDB merges other
// families meanwhile. Ends early, without an error, if `canceled` is set or the family is dropped.
// The caller should flush what is in memory before. Returns kStorage or kCorruption.
Status RemoveGarbage(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family,
                     std::atomic<bool>* canceled);

}  // namespace topicdb::rocks
