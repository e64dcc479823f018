// What a shard has, and what all the objects that work on it share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rocksdb/db.h>

#include "base/file/files.h"
#include "base/leap_clock.h"
#include "base/thread/mutex.h"
#include "rocks/log/shard_log.h"
#include "store/catalog/meta.h"
#include "store/catalog/retention_file.h"
#include "store/slab/family_stock.h"
#include "store/slab/older_copies.h"
#include "store/slab/slab.h"
#include "store/slab/topic_cache.h"
#include "store/view/shard_environment.h"
#include "store/view/shard_view.h"

namespace topicdb {

// The RocksDB of a shard, the numbers and slabs that are committed in it, the view of them, and the
// only way to write. A Shard owns it. The objects of the shard that commit, seal, rotate and delete
// refer to it, and it outlives them.
//
// Lock rule: `mutex` is the commit mutex of the shard. Whoever holds it may take the mutex of a
// slab or the mutex of the view. Nobody waits for the commit queue under it.
class ShardState {
 public:
  ShardState(std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index);
  ~ShardState();
  ShardState(const ShardState&) = delete;
  ShardState& operator=(const ShardState&) = delete;

  // Returns "shard 2 of fleet.db", for messages.
  std::string Name() const;

  // Returns what readers see now. Null until the shard is open.
  std::shared_ptr<const ShardView> view() const TOPICDB_EXCLUDES(view_mutex_);
  // As view(). What is committed from then on is remembered, until EndTransaction.
  std::shared_ptr<const ShardView> BeginTransaction() TOPICDB_EXCLUDES(view_mutex_);
  void EndTransaction() TOPICDB_EXCLUDES(view_mutex_);
  // Makes what is committed, with these slabs and unfinished deletes, the view of new readers.
  // Returns whether a transaction is open that began before.
  bool Publish(SlabViews new_slabs, DeleteRecords new_deletes) TOPICDB_REQUIRES(mutex)
      TOPICDB_EXCLUDES(view_mutex_);

  // Returns kReadOnly, or why nothing is written any more, or what its log says.
  Status CheckWritable() const TOPICDB_REQUIRES(mutex);
  // Lets nothing be written until the shard is opened again.
  void Poison(const Status& status) TOPICDB_REQUIRES(mutex);
  // Writes by the log. A failure poisons the shard.
  Status Write(const rocks::ShardEntry& entry, rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(mutex);
  // Fsyncs the log. A failure poisons the shard.
  Status SyncLog() TOPICDB_EXCLUDES(mutex);
  // Reserves serials beyond those in use and `more`, with an fsync, so that none is ever used
  // twice.
  Status ReserveSerials(std::uint64_t more = 0) TOPICDB_REQUIRES(mutex);
  // Adds what the clock has been seen to do to `batch`, if there is news. The caller gives it to
  // clock.NoteSaved once the batch is written.
  Result<std::optional<LeapRecord>> PutClock(rocksdb::WriteBatch* batch) const;
  // Writes down what the clock has been seen to do, if there is news.
  Status SaveClock() TOPICDB_EXCLUDES(mutex);
  // Says that every serial in use is known, so that numbering goes on without a gap.
  Status SaveCleanState() TOPICDB_REQUIRES(mutex);

  // Moves what is in memory to files. `wait`: returns when that is done.
  Status FlushFamilies(const std::vector<SlabView>& of_slabs, bool wait);
  // As FlushFamilies of all slabs, while nobody commits.
  Status Flush() TOPICDB_EXCLUDES(mutex);
  // Sees to it that sealing does not make parts of commits durable that are not in the log.
  Status FlushUnlogged() TOPICDB_EXCLUDES(mutex);
  // Returns how many bytes were written since all of memory was last asked to go to files.
  std::uint64_t UnflushedBytes() const { return log->bytes() - flushed_bytes_; }

  // Returns whether a class, which may be newer than the slabs, has a current slab.
  bool HasCurrentSlab(RetentionClassId retention_class) const TOPICDB_REQUIRES(mutex) {
    return retention_class.value() < current_.size() &&
           current_[retention_class.value()].slab != nullptr;
  }
  // Returns the current slab of a class; its `slab` is null if the class has none.
  // REQUIRES: the class was among the rules when the slabs were published
  const SlabView* CurrentSlab(RetentionClassId retention_class) const TOPICDB_REQUIRES(mutex);
  // Returns whether a slab is there, current or not: it may have been dropped.
  bool HasSlab(const Slab& slab) const TOPICDB_REQUIRES(mutex);
  // Notes that a commit has deleted messages: blocks may have become worth writing anew.
  void NoteDeleted() TOPICDB_REQUIRES(mutex);
  // Returns a number that RocksDB keeps, over all families; 0 if it does not know it.
  std::uint64_t Property(const char* name) const;
  // Returns how many slabs one call to RocksDB should make or drop families of.
  std::size_t SlabsAtOnce() const TOPICDB_REQUIRES(mutex);

  // Returns when RocksDB neither flushes nor compacts any more.
  void StopBackgroundWork();
  // Gives back slabs and view, closes RocksDB, releases the lock of the directory. May be repeated.
  Status CloseRocks() TOPICDB_EXCLUDES(mutex, view_mutex_);

  const std::shared_ptr<const ShardEnvironment> environment;
  const std::uint32_t index;

  // Constant while the shard is open.
  std::unique_ptr<FileLock> directory_lock;
  std::unique_ptr<rocksdb::DB> db;
  std::unique_ptr<FamilyHandle> default_family;
  std::unique_ptr<rocks::ShardLog> log;  // thread-safe; everything is written by it

  mutable Mutex mutex;
  meta::CommitState commit TOPICDB_GUARDED_BY(mutex);
  Status poison TOPICDB_GUARDED_BY(mutex);  // why nothing is written any more
  std::shared_ptr<const RetentionRules> rules TOPICDB_GUARDED_BY(mutex);
  SlabViews slabs TOPICDB_GUARDED_BY(mutex);  // set by Publish, as the next two
  SlabLists lists TOPICDB_GUARDED_BY(mutex);
  OlderCopies older_copies TOPICDB_GUARDED_BY(mutex);
  // Deletes that have yet to remove what they hide.
  DeleteRecords deletes TOPICDB_GUARDED_BY(mutex) =
      std::make_shared<const std::vector<meta::DeleteRecord>>();
  SharedJobs jobs TOPICDB_GUARDED_BY(mutex) = std::make_shared<const meta::JobRecords>();
  std::uint64_t deletes_version TOPICDB_GUARDED_BY(mutex) = 0;
  std::uint64_t removals_version TOPICDB_GUARDED_BY(mutex) = NewRemovalsVersion();
  // The last commit that only memory has; 0: there is none.
  std::uint64_t unlogged_serial TOPICDB_GUARDED_BY(mutex) = 0;
  TopicCache topics TOPICDB_GUARDED_BY(mutex);  // of the current slabs
  mutable LeapClock clock;                      // thread-safe

 private:
  void TakeSlabs(SlabViews new_slabs) TOPICDB_REQUIRES(mutex);

  std::vector<SlabView> current_ TOPICDB_GUARDED_BY(mutex);  // by class

  mutable Mutex view_mutex_;
  std::shared_ptr<const ShardView> view_ TOPICDB_GUARDED_BY(view_mutex_);
  std::uint64_t open_transactions_ TOPICDB_GUARDED_BY(view_mutex_) = 0;

  // How much had been written to memory when all of it was last asked to go to files.
  std::atomic<std::uint64_t> flushed_bytes_{0};
};

}  // namespace topicdb
