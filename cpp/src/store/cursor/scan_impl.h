// A running scan; see Scan in topicdb/scan.h.
#pragma once

#include <memory>
#include <vector>

#include "base/thread/mutex.h"
#include "store/database/database_impl.h"
#include "store/read/stream_sources.h"

namespace topicdb {

// A read examines this many rows before it asks whether to stop. This takes about 50 ms.
inline constexpr std::size_t kExaminedMax = 100'000;

// The state of a Scan, which owns it. It registers with its database, so that Close of the database
// can release its views. Thread-safe. Lock order: the database's lifecycle(), then mutex_.
class ScanImpl : public ViewHolder {
 public:
  ScanImpl(std::shared_ptr<DatabaseImpl> database, std::vector<ShardMoment> moments,
           std::unique_ptr<MessageSource> source, MissingReasons left_out = {});
  ~ScanImpl() override;

  // Does what Scan::Next does. Once a read has failed, returns the same error in each further call.
  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(mutex_);
  // Does what Scan::NextParcel does, and keeps errors as Next does.
  Result<std::shared_ptr<const Parcel>> NextParcel(std::size_t bytes_max,
                                                   const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(mutex_);
  const MissingReasons& left_out() const { return left_out_; }
  // Does what Scan::counters does.
  ReadCounters Counters() TOPICDB_EXCLUDES(mutex_);
  void Close() TOPICDB_EXCLUDES(mutex_);
  // Destroys the source and releases the views and the shards. REQUIRES (Release): the caller holds
  // the database's lifecycle(), shared or alone
  void Release() override TOPICDB_EXCLUDES(mutex_);
  // Returns whether this is a forked child, in which nothing here may be touched.
  bool Forked() const { return database_->fork_guard().Forked(); }

 private:
  // Calls read() until has_some() is true. Returns false at the end.
  template <typename Read, typename HasSome>
  Result<bool> ReadSome(Read read, HasSome has_some, const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(mutex_);

  const std::shared_ptr<DatabaseImpl> database_;
  const MissingReasons left_out_;
  Mutex mutex_;  // one call at a time
  // The source must be destroyed before the moments: first readers, then views, then shards.
  std::vector<ShardMoment> moments_ TOPICDB_GUARDED_BY(mutex_);
  std::unique_ptr<MessageSource> source_ TOPICDB_GUARDED_BY(mutex_);
  // The error of a read. Nothing more is read then, because messages that the failed read had gone
  // past would be missing.
  Status failure_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
