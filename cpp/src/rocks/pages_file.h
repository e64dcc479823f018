// Writes a table file of pages outside of any database, and brings it into one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <rocksdb/db.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// Writes the file. The caller of Create owns it. Not thread-safe.
class PagesFile {
 public:
  // Makes the file `path`. REQUIRES: there is no such file
  static Result<std::unique_ptr<PagesFile>> Create(const std::string& path);
  ~PagesFile();
  PagesFile(const PagesFile&) = delete;
  PagesFile& operator=(const PagesFile&) = delete;

  // Adds a page. REQUIRES: `key` is greater than the one before
  Status Put(std::string_view key, std::string_view page);
  // Returns how many bytes the file has so far.
  std::uint64_t bytes() const;
  // Ends the file and fsyncs it. No Put may follow.
  Status Finish();

 private:
  struct Writer;
  explicit PagesFile(std::string path);

  const std::string path_;
  const std::unique_ptr<Writer> writer_;
};

// Reads records of pages out of such a file. The caller of Open owns it. Not thread-safe.
class PagesFileReader {
 public:
  // Opens the file `path`. Returns kStorage or kCorruption.
  static Result<std::unique_ptr<PagesFileReader>> Open(const std::string& path);
  ~PagesFileReader();
  PagesFileReader(const PagesFileReader&) = delete;
  PagesFileReader& operator=(const PagesFileReader&) = delete;

  // Returns the record with this key. Returns kCorruption if there is none or if the file is
  // damaged.
  Result<std::string> Get(std::string_view key);
  // Calls visit for each record, in the order of the keys. Stops when a call fails, and returns its
  // error. Returns kCorruption if the file is damaged.
  Status ForEach(const std::function<Status(std::string_view key, std::string_view page)>& visit);

 private:
  struct Reader;
  explicit PagesFileReader(std::string path);

  const std::string path_;
  const std::unique_ptr<Reader> reader_;
};

// Adds the pages of the file to the family, durably. The file stays as it is, and the database
// shares its blocks on disk where the file system can. Returns kStorage.
Status Ingest(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, const std::string& path);

}  // namespace topicdb::rocks
