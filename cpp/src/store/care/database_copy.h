// Making a copy of a database's directory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rocks/live_files.h"
#include "topicdb/types/copies.h"
#include "topicdb/interrupt.h"
#include "topicdb/status.h"

namespace topicdb {

// Fills a directory beside the one that it is to be, `<path>.partial`, which is removed again
// unless Finish succeeds. Not thread-safe.
class DatabaseCopy {
 public:
  // kExists if there is anything at `path`, unless `replaces`.
  static Result<std::unique_ptr<DatabaseCopy>> Begin(const std::string& path,
                                                     const CopyOptions& options, bool replaces,
                                                     InterruptCheck interrupted);
  ~DatabaseCopy();
  DatabaseCopy(const DatabaseCopy&) = delete;
  DatabaseCopy& operator=(const DatabaseCopy&) = delete;

  // Files of a shard; table files are linked where they can be, and not copied if the copy that
  // they are based on has them. kInterrupted.
  Status AddShard(std::uint32_t shard, const std::vector<rocks::LiveFile>& files);
  // A file of the database's directory; nothing if it has none of that name.
  Status AddFile(const std::string& database_path, const std::string& name);
  // What jobs have left there: nothing of it is ever changed in place.
  Status AddJobs(const std::string& database_path);

  // Makes it durable and gives it its name: the copy is there when this returns, and was not
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
