// The files of an open RocksDB, for a copy of it.
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
  std::uint64_t bytes = 0;  // it may have grown since: only these belong to the moment
  bool immutable = false;   // it never changes: a link is as good as a copy
  std::string content;      // if not empty, this instead of what the file has
};

// While it lives, no file of the database is deleted.
class FilesHold {
 public:
  static Result<std::unique_ptr<FilesHold>> Take(rocksdb::DB* db);
  ~FilesHold();
  FilesHold(const FilesHold&) = delete;
  FilesHold& operator=(const FilesHold&) = delete;

 private:
  explicit FilesHold(rocksdb::DB* db) : db_(db) {}
  rocksdb::DB* const db_;
};

// All that there is to a copy, with the log as it is. REQUIRES: a FilesHold, until it is made
Result<std::vector<LiveFile>> ListLiveFiles(rocksdb::DB* db);

// The same of a database that nobody has open for writing: whatever is in its directory but
// RocksDB's own log and lock.
Result<std::vector<LiveFile>> ListClosedFiles(const std::string& directory);

}  // namespace topicdb::rocks
