// A bound on how many table files are open at once, whatever their number.
//
// RocksDB may have thousands of them, all of which it keeps ready for reading; a process may have
// some 1,024 open. Here a file that was not read lately is closed, and opened again when it is.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include <rocksdb/file_system.h>

#include "base/thread/mutex.h"

namespace topicdb::rocks {

class TableFile;

// Whose files they are: it says what it means that one is gone.
enum class FilesOwner {
  kWriter,  // nobody else removes any: it is damage
  kReader,  // the writer may have: what the reader sees is older than the files are now
};

// Those of all databases of a process. Thread-safe; lives as long as its files do.
class OpenFiles {
 public:
  // open_max: at least 1. While more files than that are read at the same moment, more are open.
  explicit OpenFiles(std::size_t open_max) : open_max_(open_max) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Opens a file, which must be there, for reading.
  rocksdb::IOStatus Open(const std::string& path, FilesOwner owner,
                         std::unique_ptr<rocksdb::FSRandomAccessFile>* file);

  // Those that are open and not being read are closed. Returns how many.
  std::size_t CloseIdle() TOPICDB_EXCLUDES(mutex_);
  std::size_t open() const TOPICDB_EXCLUDES(mutex_);
  std::size_t open_max() const { return open_max_; }

 private:
  friend class TableFile;

  // Closes one if as many as may be are open.
  void MakeRoom() TOPICDB_EXCLUDES(mutex_);
  void Add(TableFile* file) TOPICDB_EXCLUDES(mutex_);
  void Remove(TableFile* file) TOPICDB_EXCLUDES(mutex_);
  // One that was not read since it was looked at last; false if there is none.
  bool CloseOne() TOPICDB_REQUIRES(mutex_);

  const std::size_t open_max_;
  mutable Mutex mutex_;  // before those of files
  // In the order in which they are looked at.
  std::list<TableFile*> files_ TOPICDB_GUARDED_BY(mutex_);
};

// One for the process. At first it raises the soft limit of open files as far as it may; half of
// what there is then are for table files, the others for logs, sockets and the program's own.
OpenFiles& ProcessOpenFiles();

}  // namespace topicdb::rocks
