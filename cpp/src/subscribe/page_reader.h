// Reads pages of the log of one shard.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "base/thread/mutex.h"
#include "store/cursor/log_cursor.h"
#include "subscribe/log_page.h"

namespace topicdb {

// Reads pages, and keeps its cursors where they ended, so that the next read continues there. A
// Track owns it. Thread-safe: a read holds mutex_. The owner must clear it before the shard closes.
class PageReader {
 public:
  // Keeps at most `cursors_max` cursors.
  explicit PageReader(std::size_t cursors_max) : cursors_max_(cursors_max) {}

  // Reads a page that begins at `from`, and leaves out what was `given` unless that is null.
  // Returns kCorruption or kInterrupted, and what GivenReads::Check does.
  Result<std::shared_ptr<LogPage>> Read(const std::shared_ptr<Shard>& shard,
                                        std::shared_ptr<const InterestSet> interests,
                                        const CommitPlace& from, const PageLimits& limits,
                                        const InterruptCheck& interrupted,
                                        std::shared_ptr<const GivenReads> given = nullptr)
      TOPICDB_EXCLUDES(mutex_);
  // Gives back what the cursors hold of the shard.
  void Clear() TOPICDB_EXCLUDES(mutex_);

 private:
  // A cursor that stands where the last read with it ended.
  struct Kept {
    std::shared_ptr<const InterestSet> interests;  // for which the cursor reads
    std::shared_ptr<const GivenReads> given;       // that it leaves out
    LogCursor cursor;
  };
  // Takes out the cursor that is at `from` and reads the same. Makes one if there is none.
  Kept Take(const std::shared_ptr<const InterestSet>& interests,
            const std::shared_ptr<const GivenReads>& given, const CommitPlace& from)
      TOPICDB_REQUIRES(mutex_);
  // Returns what finds generations without a log for the interests. It stays the same from one read
  // for them to the next.
  std::shared_ptr<LogGaps> GapsOf(const std::shared_ptr<const InterestSet>& interests)
      TOPICDB_REQUIRES(mutex_);

  const std::size_t cursors_max_;
  Mutex mutex_;
  std::list<Kept> kept_ TOPICDB_GUARDED_BY(mutex_);  // the most recently used one is first
  // Those of the last read.
  std::weak_ptr<const InterestSet> interests_ TOPICDB_GUARDED_BY(mutex_);
  std::shared_ptr<LogGaps> gaps_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
