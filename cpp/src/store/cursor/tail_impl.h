// Reads the commit log shard by shard; see Tail in topicdb/tail.h.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/thread/mutex.h"
#include "store/cursor/log_cursor.h"
#include "store/database/database_impl.h"
#include "topicdb/tail.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// The state of a Tail, which owns it. It registers with its database, so that Close of the database
// can release its views. Thread-safe. Lock order: the database's lifecycle(), then mutex_.
class TailImpl : public ViewHolder {
 public:
  // `given` is what options.given have given.
  TailImpl(std::shared_ptr<DatabaseImpl> database, std::vector<Filter> filters,
           const TailOptions& options, GivenByShard given, MissingReasons left_out);
  ~TailImpl() override;

  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            std::optional<std::chrono::microseconds> timeout,
                                            const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(mutex_);
  std::map<std::uint32_t, Serial> serials() const TOPICDB_EXCLUDES(mutex_);
  const MissingReasons& left_out() const { return left_out_; }
  const std::set<std::uint32_t>& shards() const { return shards_; }
  void Close() TOPICDB_EXCLUDES(mutex_);
  // Ends the tail and releases its cursors. REQUIRES (Release): the caller holds the database's
  // lifecycle(), shared or alone
  void Release() override TOPICDB_EXCLUDES(mutex_);
  // Returns whether this is a forked child, in which nothing here may be touched.
  bool Forked() const { return database_->fork_guard().Forked(); }

 private:
  // Puts the messages that there are now into `found`. Returns whether a caller has to wait no
  // longer: there are some, or the tail has come to its end. Both are one step: Close, which
  // another thread may call at any time, must not look like the end of a tail.
  Result<bool> Poll(const PageLimits& limits, const InterruptCheck& interrupted,
                    std::shared_ptr<const Batch>* found) TOPICDB_EXCLUDES(mutex_);
  // Returns the last commit of a shard that the tail wants.
  Serial UntilOf(std::uint32_t shard) const;
  // Returns the cursor of a shard. Makes it if there is none.
  LogCursor& CursorOf(std::uint32_t shard) TOPICDB_REQUIRES(mutex_);
  // Returns whether the tail has come to the last commit that it wants in each shard that it reads.
  // REQUIRES (IsDone): Poll has found no message, and so has looked at all of these
  bool IsDone() const TOPICDB_REQUIRES(mutex_);

  const std::shared_ptr<DatabaseImpl> database_;
  const std::vector<Filter> filters_;
  const MissingReasons left_out_;
  const std::map<std::uint32_t, Serial> until_;
  const GivenByShard given_;
  // The shards that were open when the tail began; it reads no others. A shard that comes back
  // later would bring messages from before the place that the caller has chosen in the others. The
  // constructor fills it, and nothing changes it.
  std::set<std::uint32_t> shards_;
  mutable Mutex mutex_;  // one call at a time
  // By shard: the tail has returned every message up to this commit. It also has the shards of
  // TailOptions::after that it does not read.
  std::map<std::uint32_t, Serial> serials_ TOPICDB_GUARDED_BY(mutex_);
  std::map<std::uint32_t, LogCursor> cursors_ TOPICDB_GUARDED_BY(mutex_);  // by shard
  std::uint32_t next_shard_ TOPICDB_GUARDED_BY(mutex_) = 0;
  bool closed_ TOPICDB_GUARDED_BY(mutex_) = false;
};

}  // namespace topicdb
