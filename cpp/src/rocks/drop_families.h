// Drops column families in a way that can be tried again.
#pragma once

#include <rocksdb/db.h>

#include "rocks/rocks_compat.h"

namespace topicdb::rocks {

// Drops these families from the RocksDB. Their handles stay valid. After an error some of the
// families may be gone. The same call may then be repeated: it passes over those.
rocksdb::Status DropFamilies(rocksdb::DB* db, const FamilyHandles& families);

}  // namespace topicdb::rocks
