// Opens each directory of a RocksDB once, however many handles it has, and knows the log in it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <rocksdb/file_system.h>

#include "base/file/known_file.h"
#include "base/thread/mutex.h"
#include "topicdb/status.h"

namespace topicdb::rocks {

// The directories that are open in this process. RocksDB opens the directory of a shard once for
// each column family, and keeps it open to fsync it. A process has one such object. Thread-safe.
//
// RocksDB finds its files by their paths. If the directory is removed or replaced while a RocksDB
// is open, what it writes is lost, and what it makes or removes it makes or removes in the
// directory that has the path now. The log that RocksDB writes at present tells: it is open all the
// time, and its path leads to it as long as the directory is in place.
class OpenDirectories {
 public:
  using Open = std::function<rocksdb::IOStatus(std::unique_ptr<rocksdb::FSDirectory>*)>;

  // Opens the directory unless another handle has it open.
  rocksdb::IOStatus Share(const std::string& path, const Open& open,
                          std::unique_ptr<rocksdb::FSDirectory>* directory)
      TOPICDB_EXCLUDES(mutex_);

  // Notes that a RocksDB has made a log at `path`, and writes this one from now on. Does nothing if
  // its directory is not open. Returns kStorage if there is no such file any more.
  Status NoteLog(const std::string& path) TOPICDB_EXCLUDES(mutex_);
  // Returns OK if the log that NoteLog was last told of in this directory is still at its path, and
  // also if there is none. Otherwise returns the error of KnownFile::CheckInPlace.
  Status CheckLog(const std::string& directory) const TOPICDB_EXCLUDES(mutex_);

 private:
  struct Known {
    std::weak_ptr<rocksdb::FSDirectory> directory;
    std::shared_ptr<const KnownFile> log;  // null if none was made since it was opened
  };
  // Returns the log that RocksDB writes in this directory, or null if none is known.
  std::shared_ptr<const KnownFile> LogIn(const std::string& key) const TOPICDB_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Known> known_ TOPICDB_GUARDED_BY(mutex_);  // by path
};

// Returns the object of this process.
OpenDirectories& ProcessOpenDirectories();
// Returns the path of the directory that a file is in.
std::string DirectoryOf(const std::string& path);

}  // namespace topicdb::rocks
