// Limits how many table files are open at once, however many there are.
//
// RocksDB may have thousands of table files, and keeps all of them ready for reading. A process may
// have some 1,024 files open. OpenFiles closes a file that was not read recently, and opens it
// again when it is read.
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

// Whose files they are, which decides what a missing file means.
enum class FilesOwner {
  kWriter,  // nobody else removes files: it is damage
  kReader,  // the writer may have removed it: the reader's view is older than the files
};

// Opens and closes the table files of all databases of a process. It must outlive its files.
// Thread-safe.
class OpenFiles {
 public:
  // `open_max` is at least 1. More files are open while more of them are read at the same moment.
  explicit OpenFiles(std::size_t open_max) : open_max_(open_max) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Opens a file for reading. REQUIRES: it exists
  rocksdb::IOStatus Open(const std::string& path, FilesOwner owner,
                         std::unique_ptr<rocksdb::FSRandomAccessFile>* file);

  // Closes the files that are open and not being read. Returns how many these are.
  std::size_t CloseIdle() TOPICDB_EXCLUDES(mutex_);
  std::size_t open() const TOPICDB_EXCLUDES(mutex_);
  std::size_t open_max() const { return open_max_; }

 private:
  friend class TableFile;

  // Closes a file if `open_max` files are open.
  void MakeRoom() TOPICDB_EXCLUDES(mutex_);
  void Add(TableFile* file) TOPICDB_EXCLUDES(mutex_);
  void Remove(TableFile* file) TOPICDB_EXCLUDES(mutex_);
  // Closes a file that was not read since CloseOne last looked at it. Returns false if there is
  // none.
  bool CloseOne() TOPICDB_REQUIRES(mutex_);

  const std::size_t open_max_;
  mutable Mutex mutex_;  // taken before the mutex of a file
  // The open files, in the order in which CloseOne looks at them.
  std::list<TableFile*> files_ TOPICDB_GUARDED_BY(mutex_);
};

// Returns the object of this process. The first call raises the soft limit of open files as far as
// it may. Half of the limit is then for table files, the rest for logs, sockets and the program's
// own files.
OpenFiles& ProcessOpenFiles();

}  // namespace topicdb::rocks
