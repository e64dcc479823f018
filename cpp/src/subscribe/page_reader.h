// Reads pages of the log of one shard.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "base/thread/mutex.h"
#include "store/cursor/log_cursor.h"
#include "subscribe/log_page.h"

namespace topicdb {

// Keeps cursors where pages ended, so that reading goes on there. Thread-safe; a read holds the
// lock. Must be cleared before the shard closes.
class PageReader {
 public:
  // Keeps so many cursors.
  explicit PageReader(std::size_t cursors_max) : cursors_max_(cursors_max) {}

  // From a place on. kCorruption, kInterrupted.
  Result<std::shared_ptr<LogPage>> Read(const std::shared_ptr<Shard>& shard,
                                        std::shared_ptr<const InterestSet> interests,
                                        const CommitPlace& from, const PageLimits& limits,
                                        const InterruptCheck& interrupted) TOPICDB_EXCLUDES(mutex_);
  // Gives back what it holds of the shard.
  void Clear() TOPICDB_EXCLUDES(mutex_);

 private:
  struct Kept {
    std::shared_ptr<const InterestSet> interests;  // that it reads
    LogCursor cursor;
  };
  Kept Take(const std::shared_ptr<const InterestSet>& interests, const CommitPlace& from)
      TOPICDB_REQUIRES(mutex_);

  const std::size_t cursors_max_;
  Mutex mutex_;
  std::list<Kept> kept_ TOPICDB_GUARDED_BY(mutex_);  // the one that was used last is first
};

}  // namespace topicdb
