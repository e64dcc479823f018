// Opens each directory of a RocksDB once, however many handles it has.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <rocksdb/file_system.h>

#include "base/thread/mutex.h"

namespace topicdb::rocks {

// The directories that are open in this process. RocksDB opens the directory of a shard once for
// each column family, and keeps it open to fsync it. A process has one such object. Thread-safe.
class OpenDirectories {
 public:
  using Open = std::function<rocksdb::IOStatus(std::unique_ptr<rocksdb::FSDirectory>*)>;

  // Opens the directory unless another handle has it open.
  rocksdb::IOStatus Share(const std::string& path, const Open& open,
                          std::unique_ptr<rocksdb::FSDirectory>* directory)
      TOPICDB_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<rocksdb::FSDirectory>> known_ TOPICDB_GUARDED_BY(mutex_);
};

// Returns the object of this process.
OpenDirectories& ProcessOpenDirectories();

}  // namespace topicdb::rocks
