// The commit log, read shard by shard; see Tail in topicdb/tail.h.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/thread/mutex.h"
#include "store/database/database_impl.h"
#include "store/cursor/log_cursor.h"
#include "topicdb/tail.h"

namespace topicdb {

class TailImpl : public ViewHolder {
 public:
  TailImpl(std::shared_ptr<DatabaseImpl> database, std::vector<Filter> filters,
           const TailOptions& options);
  ~TailImpl() override;

  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            std::optional<std::chrono::microseconds> timeout,
                                            const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(mutex_);
  std::map<std::uint32_t, std::uint64_t> serials() const TOPICDB_EXCLUDES(mutex_);
  void Close() TOPICDB_EXCLUDES(mutex_);
  // REQUIRES: the database's lifecycle() is held, shared or alone.
  void Release() override TOPICDB_EXCLUDES(mutex_);
  bool Forked() const { return database_->fork_guard().Forked(); }

 private:
  // What there is now; nullptr if that is nothing.
  Result<std::shared_ptr<const Batch>> Poll(const PageLimits& limits,
                                            const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(mutex_);
  // The last commit of a shard that is wanted.
  std::uint64_t UntilOf(std::uint32_t shard) const;
  LogCursor& CursorOf(std::uint32_t shard) TOPICDB_REQUIRES(mutex_);
  // Whether no more can come.
  bool IsDone() const TOPICDB_EXCLUDES(mutex_);

  const std::shared_ptr<DatabaseImpl> database_;
  const std::vector<Filter> filters_;
  const std::map<std::uint32_t, std::uint64_t> until_;
  mutable Mutex mutex_;  // one call at a time
  // By shard: every message up to this commit was given.
  std::map<std::uint32_t, std::uint64_t> serials_ TOPICDB_GUARDED_BY(mutex_);
  std::map<std::uint32_t, LogCursor> cursors_ TOPICDB_GUARDED_BY(mutex_);  // by shard
  std::uint32_t next_shard_ TOPICDB_GUARDED_BY(mutex_) = 0;
  bool closed_ TOPICDB_GUARDED_BY(mutex_) = false;
};

}  // namespace topicdb
