// The files of a shard, for copies of it.

#include "store/shard.h"

namespace topicdb {

Result<ShardFiles> Shard::FilesNow() TOPICDB_NO_THREAD_SAFETY_ANALYSIS {
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  if (has_unlogged_) {  // the log does not have all
    TOPICDB_RETURN_IF_ERROR(FlushFamilies(*slabs_, /*wait=*/true));
    has_unlogged_ = false;
  }
  ShardFiles files;
  files.serial = state_.serial;
  TOPICDB_ASSIGN_OR_RETURN(files.hold, rocks::FilesHold::Take(db_.get()));
  auto listed = rocks::ListLiveFiles(db_.get());
  if (!listed.ok()) return listed.status().WithContext(Name());
  files.files = std::move(*listed);
  return files;
}

}  // namespace topicdb
