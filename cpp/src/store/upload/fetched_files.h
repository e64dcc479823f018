// Fetches the small files of an uploaded database.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rocksdb/env.h>

#include "topicdb/database/upload.h"

namespace topicdb {

// A temporary directory with the files of an uploaded database that are read as a whole whenever it
// is opened, and an environment in which the table files are there as well. Removes the directory
// when it is destroyed. The ShardEnvironment of the database owns it. Immutable: any thread may
// call it.
class FetchedFiles {
 public:
  // Fetches the files of the database, and of these shards or all. Returns kCorruption, which names
  // the object, if one is missing, has another length or other bytes. Returns the errors of
  // DecodeUpload and ObjectReader, and kStorage if the directory cannot be made.
  static Result<std::unique_ptr<FetchedFiles>> Fetch(
      const Upload& upload, const std::optional<std::vector<std::uint32_t>>& only_shards);
  ~FetchedFiles();
  FetchedFiles(const FetchedFiles&) = delete;
  FetchedFiles& operator=(const FetchedFiles&) = delete;

  // Returns a directory that has everything but the table files.
  const std::string& directory() const { return directory_; }
  const std::shared_ptr<rocksdb::Env>& env() const { return env_; }

 private:
  explicit FetchedFiles(std::string directory) : directory_(std::move(directory)) {}
  Status FetchAll(const Upload& upload, const std::vector<UploadedFile>& files);

  const std::string directory_;
  std::shared_ptr<rocksdb::Env> env_;
};

}  // namespace topicdb
