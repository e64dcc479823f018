// A look at RocksDB's logs before RocksDB reads them.
#pragma once

#include <string>

#include "topicdb/status.h"

namespace topicdb::rocks {

// kCorruption, naming file and byte, if a manifest or write-ahead log in `directory` has a record
// of a recycled log. We recycle none, so one is damage; RocksDB (9.10, log_reader.cc) would read it
// again and again for ever. All other damage RocksDB finds itself, and a torn end it knows how to
// take. Files that vanish meanwhile are of no interest.
Status CheckLogs(const std::string& directory);

}  // namespace topicdb::rocks
