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
// when it is destroyed, unless Finish has renamed it. Whoever copies owns it. Not thread-safe.
class DatabaseCopy {
 public:
  // Begins a copy at `path`. Removes what an earlier copy has left in `<path>.partial`. Returns
  // kExists if there is anything at `path`, unless `replaces`, or anything else in the way.
  static Result<std::unique_ptr<DatabaseCopy>> Begin(const std::string& path,
                                                     const CopyOptions& options, bool replaces,
                                                     InterruptCheck interrupted);
  ~DatabaseCopy();
  DatabaseCopy(const DatabaseCopy&) = delete;
  DatabaseCopy& operator=(const DatabaseCopy&) = delete;

  // Adds the files of a shard. Links table files where that is possible, unless the options say
  // otherwise. Does not copy table files that the base of this copy has. Returns kInterrupted or
  // kStorage.
  Status AddShard(std::uint32_t shard, const std::vector<rocks::LiveFile>& files);
  // Adds a file of the database's directory. Does nothing if there is no file of that name.
  Status AddFile(const std::string& database_path, const std::string& name);
  // Adds a file with this content.
  Status AddContent(const std::string& name, const std::string& content);
  // Adds the files of jobs. No process ever changes these in place.
  Status AddJobs(const std::string& database_path);

  // Returns the directory that it fills.
  const std::string& directory() const { return partial_; }
  // Adds the descriptor of the database at `database_path`, makes the copy durable, and gives it
  // its name. If there is a database at `path`, exchanges both and removes the old one. The copy
  // exists once this has returned OK, and does not exist before the call.
  Result<CopyCounts> Finish(const std::string& database_path);

 private:
  DatabaseCopy(std::string path, const CopyOptions& options, bool replaces,
               InterruptCheck interrupted);
  // Adds a file with this path in the copy: links it or copies it.
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
