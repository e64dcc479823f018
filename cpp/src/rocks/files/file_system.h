// The file system as RocksDB sees it: the machine's, with few table files open at once
// (open_files.h), each directory open once, and without RocksDB's files of options. Its threads:
// process_threads.h.
//
// RocksDB writes down the options of all column families, and reads them back, each time that one
// is made or dropped: with thousands of them that took a hundred times as long as all else. Nobody
// reads these files: what the options are is in rocks_options.cc.
#pragma once

#include <rocksdb/env.h>

#include "rocks/files/open_files.h"

namespace topicdb::rocks {

// Lives as long as the process.
rocksdb::Env* EnvOf(FilesOwner owner);

}  // namespace topicdb::rocks
