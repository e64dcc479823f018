// The file system that RocksDB gets. It is that of the machine, but few table files are open at
// once (open_files.h), each directory is open once, and there are no files of RocksDB's options.
// process_threads.h has the threads.
//
// A RocksDB whose directory was removed or replaced makes, renames and removes no file any more:
// that would happen in the directory that has the path now (open_directories.h).
//
// RocksDB writes the options of all column families to a file, and reads them back, each time one
// is made or dropped. With thousands of families, that took a hundred times as long as all else.
// Nobody reads these files: rocks_options.cc sets the options.
#pragma once

#include <rocksdb/env.h>

#include "rocks/files/open_files.h"

namespace topicdb::rocks {

// Returns the environment for these files. It lives as long as the process.
rocksdb::Env* EnvOf(FilesOwner owner);

}  // namespace topicdb::rocks
