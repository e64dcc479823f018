// A table file of pages that is written outside of any database, and its way into one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <rocksdb/db.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// Not thread-safe.
class PagesFile {
 public:
  // Writes `path`, which must not be there.
  static Result<std::unique_ptr<PagesFile>> Create(const std::string& path);
  ~PagesFile();
  PagesFile(const PagesFile&) = delete;
  PagesFile& operator=(const PagesFile&) = delete;

  // Keys must rise.
  Status Put(std::string_view key, std::string_view page);
  std::uint64_t bytes() const;
  // Fsyncs it. Nothing may be put any more.
  Status Finish();

 private:
  struct Writer;
  explicit PagesFile(std::string path);

  const std::string path_;
  const std::unique_ptr<Writer> writer_;
};

// Makes what is in the file part of the family, durably; the file stays as it is. Shares its blocks
// on disk where the file system can. kStorage.
Status Ingest(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, const std::string& path);

}  // namespace topicdb::rocks
