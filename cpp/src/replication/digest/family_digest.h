// Reads what a column family of a replica has.
#pragma once

#include <functional>

#include <rocksdb/db.h>

#include "replication/digest/replica_digest.h"

namespace topicdb::replication {

// Reads what a family has in a snapshot of RocksDB. Leaves out the note of the last entry, which
// says where a replica is, and not what it has. Returns kCorruption or kStorage if it cannot be
// read, and kInterrupted once `stops` returns true, which is asked now and then.
Result<FamilyDigest> DigestFamily(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family,
                                  const rocksdb::Snapshot* snapshot,
                                  const std::function<bool()>& stops);

}  // namespace topicdb::replication
