// Hides how the versions of RocksDB differ: 9.x to 11.x open a database in different ways. Only
// rocks_compat.h and rocks_compat.cc may know the version. They also map RocksDB's statuses to
// ours.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/version.h>

#include "topicdb/status.h"

#if ROCKSDB_MAJOR < 9
#error "RocksDB >= 9 is needed: older ones end a scan early with status OK when a file is missing"
#endif

namespace topicdb::rocks {

// Returns a status with the text "<context>: <what RocksDB says>", and with our code for its class
// of error.
Status FromRocks(const rocksdb::Status& status, const std::string& context);

using Families = std::vector<rocksdb::ColumnFamilyDescriptor>;
using FamilyHandles = std::vector<rocksdb::ColumnFamilyHandle*>;

// Open a database and its column families as RocksDB's functions of these names do. A database that
// Open has opened counts as a writing handle until it is closed (rocks/files/process_threads.h).
// REQUIRES (Open): CheckProcessMayWrite returned Ok
rocksdb::Status Open(const rocksdb::DBOptions& options, const std::string& path,
                     const Families& families, FamilyHandles* handles,
                     std::unique_ptr<rocksdb::DB>* db);
rocksdb::Status OpenForReadOnly(const rocksdb::DBOptions& options, const std::string& path,
                                const Families& families, FamilyHandles* handles,
                                std::unique_ptr<rocksdb::DB>* db);

// Returns the version of RocksDB, such as "9.10.0".
std::string Version();

}  // namespace topicdb::rocks
