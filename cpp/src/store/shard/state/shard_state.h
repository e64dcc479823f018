// The state of an open shard, which all the objects that work on the shard share.
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
#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"
#include "store/catalog/retention_file.h"
#include "store/slab/family_stock.h"
#include "store/slab/older_copies.h"
#include "store/slab/shard_families.h"
#include "store/slab/slab.h"
#include "store/slab/topic_cache.h"
#include "store/view/shard_environment.h"
#include "store/view/shard_view.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Holds the RocksDB of a shard, the numbers and slabs that are committed in it, and the view that
// readers get. Every write to the shard goes through it. A Shard owns it. The objects of the shard
// that commit, seal, rotate and delete refer to it, and it outlives them. Thread-safe; members that
// `mutex` guards belong to whoever holds it.
//
// Lock rule: `mutex` is the commit mutex of the shard. Whoever holds it may take the mutex of a
// slab, of the log or of the view. Nobody waits for the commit queue under it.
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
  // Returns view(), and counts an open transaction, which EndTransaction ends.
  std::shared_ptr<const ShardView> BeginTransaction() TOPICDB_EXCLUDES(view_mutex_);
  void EndTransaction() TOPICDB_EXCLUDES(view_mutex_);
  // Counts a transaction as open until this moment, as well, which begins at another replica.
  void NoteTransactionUntil(std::chrono::steady_clock::time_point until)
      TOPICDB_EXCLUDES(view_mutex_);
  // Makes what is committed, with these slabs and unfinished deletes, the view of new readers, and
  // wakes those that wait for commits. Returns whether a transaction is open that reads an earlier
  // view.
  bool Publish(SlabViews new_slabs, DeleteRecords new_deletes) TOPICDB_REQUIRES(mutex)
      TOPICDB_EXCLUDES(view_mutex_);

  // Returns OK if the shard can be written. Returns kReadOnly from a read-only handle, the reason
  // for which the shard is poisoned, or the error of its log.
  Status CheckWritable() const TOPICDB_REQUIRES(mutex);
  // Lets nothing be written until the shard is opened again.
  void Poison(const Status& status) TOPICDB_REQUIRES(mutex);
  // Writes the batch through the log, and checks that the log is in place if `entry` is to be on
  // disk. A failure poisons the shard.
  Status Write(const rocks::ShardEntry& entry, rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(mutex);
  // Fsyncs the log, and checks that it is in place. A failure poisons the shard.
  Status SyncLog() TOPICDB_EXCLUDES(mutex);
  // Returns OK if the directory of the shard is still the one that was opened. Otherwise poisons
  // the shard, and returns kStorage.
  Status CheckInPlace() TOPICDB_EXCLUDES(mutex);
  Status CheckInPlaceLocked() TOPICDB_REQUIRES(mutex);
  // Reserves `more` serials, and tens of thousands beyond these, with one fsync. No serial is used
  // before it is reserved, so that none is ever used twice.
  Status ReserveSerials(std::uint64_t more = 0) TOPICDB_REQUIRES(mutex);
  // Adds the record of the clock to `batch` if it has changed, and returns the record. The caller
  // must pass the record to clock.NoteSaved once the batch is written.
  Result<std::optional<LeapRecord>> PutClock(rocksdb::WriteBatch* batch) const;
  // Writes the record of the clock if it has changed. Does nothing if the shard cannot be written.
  Status SaveClock() TOPICDB_EXCLUDES(mutex);
  // Gives up the reserved serials that were not used, so that the next opening continues numbering
  // without a gap. Also writes the record of the clock. Does nothing if the shard is read-only or
  // poisoned.
  Status SaveCleanState() TOPICDB_REQUIRES(mutex);

  // Moves what these slabs and the records of the shard have in memory to files. With `wait`,
  // returns when that is done. Otherwise only starts it.
  Status FlushFamilies(const std::vector<SlabView>& of_slabs, bool wait);
  // Moves everything in memory to files, and checks that these are in place. Nobody can commit
  // meanwhile. Does nothing if the shard is read-only.
  Status Flush() TOPICDB_EXCLUDES(mutex);
  // Moves everything in memory to files if there are commits that the log does not have. Whoever
  // seals, merges or removes garbage calls it first, so as not to make only parts of such commits
  // durable.
  Status FlushUnlogged() TOPICDB_EXCLUDES(mutex);
  // Drops these families, which no record names as current or read-only any more, from RocksDB.
  // Their handles stay valid. May be repeated after an error.
  Status DropFamilies(const rocks::FamilyHandles& dropped) TOPICDB_REQUIRES(mutex);
  // Returns how many bytes were written since the last call of FlushFamilies.
  std::uint64_t UnflushedBytes() const { return log()->bytes() - flushed_bytes_; }

  // Returns the log, through which all writes go. A shard of which other sites have replicas gets
  // another log whenever it begins to lead or to follow. So whoever writes in several steps takes
  // the log before the first of them, and writes all of them through that one: steps that were
  // begun before must not go on in another reign.
  std::shared_ptr<rocks::ShardLog> log() const TOPICDB_EXCLUDES(log_mutex_);
  void SetLog(std::shared_ptr<rocks::ShardLog> log) TOPICDB_EXCLUDES(log_mutex_);

  // Returns whether a class, which may be newer than the slabs, has a current slab.
  bool HasCurrentSlab(RetentionClassId retention_class) const TOPICDB_REQUIRES(mutex) {
    return retention_class.value() < current_.size() &&
           current_[retention_class.value()].slab != nullptr;
  }
  // Returns the current slab of a class; its `slab` is null if the class has none.
  // REQUIRES (CurrentSlab): the class was among the rules when the slabs were published
  const SlabView* CurrentSlab(RetentionClassId retention_class) const TOPICDB_REQUIRES(mutex);
  // Returns whether the shard still has this slab, current or read-only.
  bool HasSlab(const Slab& slab) const TOPICDB_REQUIRES(mutex);
  // Notes that messages were deleted. The sealer will look at all slabs again, because some blocks
  // may have to be written anew.
  void NoteDeleted() TOPICDB_REQUIRES(mutex);
  // Returns the sum of an integer property of RocksDB over all families, or 0 if RocksDB has no
  // such property.
  std::uint64_t Property(const char* name) const;
  // Returns for how many slabs one call to RocksDB should make or drop families.
  std::size_t SlabsAtOnce() const TOPICDB_REQUIRES(mutex);

  // Stops the flushes and compactions of RocksDB, and returns when none runs any more.
  void StopBackgroundWork();
  // Releases the slabs and the view, closes RocksDB, and releases the lock of the directory. May be
  // repeated. REQUIRES (CloseRocks): nobody else holds a view or a slab of the shard
  Status CloseRocks() TOPICDB_EXCLUDES(mutex, view_mutex_);

  const std::shared_ptr<const ShardEnvironment> environment;
  const std::uint32_t index;

  // LoadShard sets these, and they do not change while the shard is open.
  std::unique_ptr<FileLock> directory_lock;
  std::unique_ptr<rocksdb::DB> db;
  std::shared_ptr<FamilyHandle> default_family;
  ShardFamilies families;  // thread-safe; all but the default one

  mutable Mutex mutex;
  meta::CommitState commit TOPICDB_GUARDED_BY(mutex);
  Status poison TOPICDB_GUARDED_BY(mutex);  // why nothing is written any more
  std::shared_ptr<const RetentionRules> rules TOPICDB_GUARDED_BY(mutex);
  // Publish sets these three when the slabs change.
  SlabViews slabs TOPICDB_GUARDED_BY(mutex);
  SlabLists lists TOPICDB_GUARDED_BY(mutex);
  OlderCopies older_copies TOPICDB_GUARDED_BY(mutex);
  // Deletes that have not removed everything yet that they hide.
  DeleteRecords deletes TOPICDB_GUARDED_BY(mutex) =
      std::make_shared<const std::vector<meta::DeleteRecord>>();
  SharedJobs jobs TOPICDB_GUARDED_BY(mutex) = std::make_shared<const meta::JobRecords>();
  std::uint64_t deletes_version TOPICDB_GUARDED_BY(mutex) = 0;
  std::uint64_t removals_version TOPICDB_GUARDED_BY(mutex) = NewRemovalsVersion();
  // The last commit that the log does not have and that may be in memory only, or kNoSerial if
  // there is none.
  Serial unlogged_serial TOPICDB_GUARDED_BY(mutex) = kNoSerial;
  TopicCache topics TOPICDB_GUARDED_BY(mutex);  // of the current slabs
  mutable LeapClock clock;                      // thread-safe

 private:
  // Sets the slabs, and everything that is derived from them.
  void TakeSlabs(SlabViews new_slabs) TOPICDB_REQUIRES(mutex);

  std::vector<SlabView> current_ TOPICDB_GUARDED_BY(mutex);  // by class

  mutable Mutex log_mutex_;
  std::shared_ptr<rocks::ShardLog> log_ TOPICDB_GUARDED_BY(log_mutex_);

  mutable Mutex view_mutex_;
  std::shared_ptr<const ShardView> view_ TOPICDB_GUARDED_BY(view_mutex_);
  std::uint64_t open_transactions_ TOPICDB_GUARDED_BY(view_mutex_) = 0;
  // Until when one that has begun at another replica may be open; the epoch: there is none.
  std::chrono::steady_clock::time_point elsewhere_until_ TOPICDB_GUARDED_BY(view_mutex_);

  // What log()->bytes() was at the last call of FlushFamilies. 0 for a new log.
  std::atomic<std::uint64_t> flushed_bytes_{0};
};

}  // namespace topicdb
