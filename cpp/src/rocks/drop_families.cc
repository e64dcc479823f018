#include "rocks/drop_families.h"

namespace topicdb::rocks {

// RocksDB ends at the first family that it can't drop, and it can't drop one twice. A handle does
// not tell whether its family is gone. One call for all is much faster than one for each, because
// each writes a new options file.
rocksdb::Status DropFamilies(rocksdb::DB* db, const FamilyHandles& families) {
  rocksdb::Status all = db->DropColumnFamilies(families);
  if (!all.IsInvalidArgument()) return all;
  for (rocksdb::ColumnFamilyHandle* family : families) {
    const rocksdb::Status status = db->DropColumnFamily(family);
    const bool is_gone = status.IsInvalidArgument() && family->GetID() != 0;
    if (!status.ok() && !is_gone) return status;
  }
  return rocksdb::Status::OK();
}

}  // namespace topicdb::rocks
