// Finds streams that are new since the last look; see StreamWatch in topicdb/stream_watch.h.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/thread/mutex.h"
#include "store/database/database_impl.h"
#include "topicdb/stream_watch.h"

namespace topicdb {

// The state of a StreamWatch, which owns it. It holds no views between calls. Thread-safe. Lock
// order: the database's lifecycle(), then mutex_.
class StreamWatchImpl {
 public:
  // With `existing`, the first look also finds the streams that exist already.
  StreamWatchImpl(std::shared_ptr<DatabaseImpl> database, const Filter& filter, bool existing);

  Result<std::vector<Stream>> Next(std::optional<std::chrono::microseconds> timeout,
                                   const InterruptCheck& interrupted) TOPICDB_EXCLUDES(mutex_);
  void Close() TOPICDB_EXCLUDES(mutex_);
  // Returns whether this is a forked child, in which nothing here may be touched.
  bool Forked() const { return database_->fork_guard().Forked(); }

 private:
  // Adds the new streams to `found`.
  Status Look(std::vector<Stream>* found) TOPICDB_EXCLUDES(mutex_);

  const std::shared_ptr<DatabaseImpl> database_;
  const Filter filter_;
  mutable Mutex mutex_;  // one look at a time
  // What Slab::LastStreamMax returned of each slab at the last look.
  std::map<SlabId, StreamId> seen_ TOPICDB_GUARDED_BY(mutex_);
  bool closed_ TOPICDB_GUARDED_BY(mutex_) = false;
};

}  // namespace topicdb
