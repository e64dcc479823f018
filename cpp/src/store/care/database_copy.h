// Makes a copy of a database's directory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rocks/live_files.h"
#include "topicdb/interrupt.h"
#include "topicdb/status.h"
#include "topicdb/types/copies.h"

namespace topicdb {

// Fills the directory `<path>.partial`, which Finish renames to `<path>`. Removes that directory
// again unless Finish succeeds. Not thread-safe.
class DatabaseCopy {
 public:
  // Begins a copy at `path`. kExists if there is anything at `path`, unless `replaces`.
  static Result<std::unique_ptr<DatabaseCopy>> Begin(const std::string& path,
                                                     const CopyOptions& options, bool replaces,
                                                     InterruptCheck interrupted);
  ~DatabaseCopy();
  DatabaseCopy(const DatabaseCopy&) = delete;
  DatabaseCopy& operator=(const DatabaseCopy&) = delete;

  // Adds the files of a shard. Links table files where that is possible. Does not copy table files
  // that the base of this copy has. kInterrupted.
  Status AddShard(std::uint32_t shard, const std::vector<rocks::LiveFile>& files);
  // Adds a file of the database's directory. Does nothing if there is no file of that name.
  Status AddFile(const std::string& database_path, const std::string& name);
  // Adds the files of jobs. No process ever changes these in place.
  Status AddJobs(const std::string& database_path);

  // Makes the copy durable and gives it its name. The copy exists once this returns, and did not
  // before.
  Result<CopyCounts> Finish(const std::string& database_path);

 private:
  DatabaseCopy(std::string path, const CopyOptions& options, bool replaces,
               InterruptCheck interrupted);
  Status Add(const std::string& relative, const rocks::LiveFile& file);

  const std::string path_;
  const std::string partial_;
  const CopyOptions options_;
  const bool replaces_;
  const InterruptCheck interrupted_;
  CopyCounts counts_;
  bool finished_ = false;
};

}  // namespace topicdb
