#include "rocks/garbage.h"

#include <rocksdb/metadata.h>
#include <rocksdb/options.h>

#include "rocks/rocks_compat.h"

namespace topicdb::rocks {

FamilyGarbage MeasureGarbage(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family) {
  FamilyGarbage found;
  rocksdb::ColumnFamilyMetaData files;
  db->GetColumnFamilyMetaData(family, &files);
  for (const rocksdb::LevelMetaData& level : files.levels) {
    for (const rocksdb::SstFileMetaData& file : level.files) {
      found.removed += file.num_deletions;
      found.written += file.num_entries - file.num_deletions;
    }
  }
  found.file_bytes = files.size;
  for (const std::string& memory : {rocksdb::DB::Properties::kNumDeletesActiveMemTable,
                                    rocksdb::DB::Properties::kNumDeletesImmMemTables}) {
    std::uint64_t removed = 0;
    if (db->GetIntProperty(family, memory, &removed)) found.removed += removed;
  }
  return found;
}

std::uint64_t OldestSnapshot(rocksdb::DB* db) {
  const std::uint64_t now = db->GetLatestSequenceNumber();  // first: a snapshot may come meanwhile
  std::uint64_t oldest = 0;
  const bool has_any =
      db->GetIntProperty(rocksdb::DB::Properties::kOldestSnapshotSequence, &oldest) && oldest > 0;
  return has_any ? oldest : now;
}

Status RemoveGarbage(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family,
                     std::atomic<bool>* canceled) {
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.allow_write_stall = true;  // else it waits for a moment at which it stalls nobody
  // All that can be removed may be in the last level already.
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.canceled = canceled;
  const rocksdb::Status status = db->CompactRange(options, family, nullptr, nullptr);
  const bool is_over =
      status.IsManualCompactionPaused() || status.IsColumnFamilyDropped() || status.IsIncomplete();
  return is_over ? Status::Ok() : FromRocks(status, "removing what was deleted from files");
}

}  // namespace topicdb::rocks
