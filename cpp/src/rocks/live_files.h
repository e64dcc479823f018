// Lists the files of a RocksDB, for a copy of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// A file as it is at one moment.
struct LiveFile {
  std::string path;
  std::string name;         // in the directory
  std::uint64_t bytes = 0;  // at that moment; the file may have grown since
  bool immutable = false;   // it never changes: a link is as good as a copy
  std::string content;      // if not empty, to be copied instead of the file's content
};

// Keeps RocksDB from deleting files of the database while it lives. The caller of Take owns it, and
// the database must outlive it.
class FilesHold {
 public:
  // Begins to keep the files. Returns kStorage.
  static Result<std::unique_ptr<FilesHold>> Take(rocksdb::DB* db);
  ~FilesHold();
  FilesHold(const FilesHold&) = delete;
  FilesHold& operator=(const FilesHold&) = delete;

 private:
  explicit FilesHold(rocksdb::DB* db) : db_(db) {}
  rocksdb::DB* const db_;
};

// Returns all files that a copy needs. Does not flush: the log is one of them. REQUIRES: the caller
// keeps a FilesHold until the copy is made
Result<std::vector<LiveFile>> ListLiveFiles(rocksdb::DB* db);

// Returns the files that a copy needs of a database that nobody has open for writing: everything in
// its directory except RocksDB's lock and its log of what it does.
Result<std::vector<LiveFile>> ListClosedFiles(const std::string& directory);

}  // namespace topicdb::rocks
