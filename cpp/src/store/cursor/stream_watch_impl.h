// Which streams there were when it was last looked; see StreamWatch in topicdb/stream_watch.h.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/thread/mutex.h"
#include "store/database/database_impl.h"
#include "topicdb/stream_watch.h"

namespace topicdb {

class StreamWatchImpl {
 public:
  // existing: tells of the streams that are there, too.
  StreamWatchImpl(std::shared_ptr<DatabaseImpl> database, const Filter& filter, bool existing);

  Result<std::vector<Stream>> Next(std::optional<std::chrono::microseconds> timeout,
                                   const InterruptCheck& interrupted) TOPICDB_EXCLUDES(mutex_);
  void Close() TOPICDB_EXCLUDES(mutex_);
  bool Forked() const { return database_->fork_guard().Forked(); }

 private:
  // Adds what is new.
  Status Look(std::vector<Stream>* found) TOPICDB_EXCLUDES(mutex_);

  const std::shared_ptr<DatabaseImpl> database_;
  const Filter filter_;
  mutable Mutex mutex_;  // one look at a time
  // Of each slab that is there: the last node of its structures when it was looked at.
  std::map<SlabId, NodeId> seen_ TOPICDB_GUARDED_BY(mutex_);
  bool closed_ TOPICDB_GUARDED_BY(mutex_) = false;
};

}  // namespace topicdb
