// A shard: one RocksDB with one writer. Commits messages to its current slabs and hands out views.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rocksdb/db.h>

#include "base/file/files.h"
#include "base/leap_clock.h"
#include "base/thread/mutex.h"
#include "commit/append_ids.h"
#include "commit/commit_queue.h"
#include "commit/conflict_memory.h"
#include "rocks/live_files.h"
#include "rocks/log/log_check.h"
#include "rocks/rocks_options.h"
#include "store/catalog/meta.h"
#include "store/catalog/retention_file.h"
#include "store/shard/shard_commit.h"
#include "store/slab/family_stock.h"
#include "store/slab/older_copies.h"
#include "store/slab/slab.h"
#include "store/slab/topic_cache.h"
#include "store/view/sealer.h"
#include "store/view/shard_environment.h"
#include "store/view/shard_view.h"
#include "topicdb/job.h"
#include "topicdb/types/maintenance.h"
#include "topicdb/types/stats.h"

namespace topicdb {

class CommitBuilder;
struct KeepLastMerge;

// Whose garbage is removed.
enum class GarbageScope {
  kSettled,  // of read-only slabs nearly all; of others only if it is most of what they have
  kAll,      // of others, too, whatever is worth the work
  kQuick,    // the same, where it takes no time that anybody would notice
};

// What a copy of a shard is made of.
struct ShardFiles {
  std::uint64_t serial = 0;  // of the last commit in them
  std::vector<rocks::LiveFile> files;
  std::unique_ptr<rocks::FilesHold> hold;  // must be gone before the shard closes
};

// Thread-safe. Lock order: commit_mutex_, then a slab's mutex or view_mutex_. The locks of the
// commit queue are never held while commit_mutex_ is taken.
class Shard : public Sealable {
 public:
  // Creates the shard if `create`, which needs its directory to be absent. kLocked, kCorruption.
  static Result<std::shared_ptr<Shard>> Open(std::shared_ptr<const ShardEnvironment> environment,
                                             std::uint32_t index, bool create);
  ~Shard() override;

  std::uint32_t index() const { return index_; }
  // "shard 2 of fleet.db", for messages.
  std::string Name() const;
  std::shared_ptr<const ShardView> view() const TOPICDB_EXCLUDES(view_mutex_);

  // Commits, and waits until that is as durable as asked; the outcome is in `commit`. A failure to
  // write or to fsync poisons the shard: nothing more is written until it is opened again.
  void Commit(ShardCommit* commit) TOPICDB_EXCLUDES(commit_mutex_);
  // As Commit, but returns at once; `done` is called from another thread.
  void CommitAsync(std::unique_ptr<ShardCommit> commit, std::function<void()> done)
      TOPICDB_EXCLUDES(commit_mutex_);
  // The moment at which a transaction begins. What is committed from then on is remembered, until
  // EndTransaction and at most for the conflict window.
  std::shared_ptr<const ShardView> BeginTransaction() TOPICDB_EXCLUDES(view_mutex_);
  void EndTransaction() TOPICDB_EXCLUDES(view_mutex_);
  // What it knows of an append. REQUIRES: it is open for writing
  std::optional<KnownAppend> FindAppend(std::string_view id) const { return append_ids_.Find(id); }
  // Returns when what is being committed is seen by new views.
  void AwaitCommit() const TOPICDB_EXCLUDES(commit_mutex_) { const MutexLock lock(commit_mutex_); }
  // Removes what committed deletes have hidden, in steps that let other commits through.
  Status FinishDeletes() TOPICDB_EXCLUDES(commit_mutex_);

  // Sealable. Seals all that is fresh and due by size or count, and then takes one step of what can
  // wait: of merging and spreading, and of what is left to do in slabs that are read-only.
  Result<bool> SealDue() override TOPICDB_EXCLUDES(commit_mutex_);
  // What jobs it has applied.
  std::vector<JobInfo> Jobs() const TOPICDB_EXCLUDES(view_mutex_);
  // Forgets those without a sequence that are older than a week.
  Status ForgetJobs() TOPICDB_EXCLUDES(commit_mutex_);
  // Removes what jobs have stored and not committed. REQUIRES: no commit is under way
  Status RemoveUnplaced() TOPICDB_EXCLUDES(commit_mutex_);
  // Seals every fresh block.
  Status SealAll() TOPICDB_EXCLUDES(commit_mutex_);

  // Makes the slab of the reserved class if there is none.
  Status EnsureReservedSlab() TOPICDB_EXCLUDES(commit_mutex_);
  // From now on topics belong to the classes of these rules; new ones get a slab.
  Status Adopt(std::shared_ptr<const RetentionRules> rules) TOPICDB_EXCLUDES(commit_mutex_);
  // Its view of the clocks. Thread-safe.
  LeapClock& clock() const { return clock_; }
  // Writes down what the clock has been seen to do, if there is news.
  Status SaveClock() TOPICDB_EXCLUDES(commit_mutex_);
  // Of one class, or of all that users see. as_if_us: the time that it counts as done at; absent:
  // now. With `resets_clock`, timestamps that are assigned go on from the time of the clock, even
  // if later ones were assigned before.
  Status Rotate(std::optional<std::uint32_t> retention_class, std::optional<std::int64_t> as_if_us,
                bool resets_clock = false) TOPICDB_EXCLUDES(commit_mutex_);
  // What it had is noted, for readers that have not come to it. Its files go at once, or, where
  // there are many slabs, with those of others: see FinishDrops.
  Status DropSlab(std::uint32_t retention_class, std::uint32_t generation)
      TOPICDB_EXCLUDES(commit_mutex_);
  // Its families leave RocksDB at the latest here. Once this returns, nothing of what was dropped
  // is on disk.
  Status FinishDrops() TOPICDB_EXCLUDES(commit_mutex_);
  // Slabs that were dropped by commits behind this one; see meta::DropRecord. kCorruption.
  Result<std::vector<meta::DropRecord>> DropsBehind(std::uint64_t serial) const;
  // Makes `to` of the last messages of each topic in `from`, read-only slabs that go with it; none
  // if there are no messages. Returns how many it has. One at a time. kConflict: too much was
  // deleted meanwhile, try again. kCorruption, and nothing is changed, if a message cannot be read.
  // kNotFound, kInterrupted.
  Result<std::uint64_t> MergeLast(const KeepLastMerge& merge, const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(commit_mutex_);
  Status Flush();
  // What is in memory goes to files, while others commit.
  Status FlushMemory() { return FlushFamilies(view()->slabs(), /*wait=*/true); }
  // From one to the other nothing is committed. The commit mutex of a shard is held for it, which
  // the analysis cannot follow over several shards.
  void Pause() TOPICDB_NO_THREAD_SAFETY_ANALYSIS { commit_mutex_.Lock(); }
  void Resume() TOPICDB_NO_THREAD_SAFETY_ANALYSIS { commit_mutex_.Unlock(); }
  // REQUIRES: between Pause and Resume
  Result<ShardFiles> FilesNow();
  ShardStats Stats() const TOPICDB_EXCLUDES(commit_mutex_);
  // By so much the last timestamp that was assigned was ahead of the clock then.
  std::int64_t clock_ahead_us() const { return clock_ahead_us_; }
  // Bytes of its files and of the log; measured at most once a second, estimated in between.
  std::uint64_t DiskBytes() const;
  std::uint64_t MeasureDiskBytes() const;  // now
  // Fills in the bytes of a slab.
  void MeasureSlab(const Slab& slab, SlabUsage* usage) const;
  // Has what was removed by sealing leave the files that it still is in, if that is worth the work
  // and no reader sees it any more: readers that began before keep it. `canceled` ends it early.
  Status RemoveGarbage(GarbageScope scope, std::atomic<bool>* canceled)
      TOPICDB_EXCLUDES(commit_mutex_);

  // Flushes, closes RocksDB, releases the lock. No call may be under way, no view held elsewhere.
  Status Close() TOPICDB_EXCLUDES(commit_mutex_, view_mutex_);

  static std::string DirectoryOf(const std::string& database_path, std::uint32_t index);

 private:
  friend class ShardOpener;
  friend class CommitBuilder;
  friend class DeleteExpander;

  Shard(std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index);

  // What the commit queue calls.
  void CommitGroup(std::span<ShardCommit* const> group) TOPICDB_EXCLUDES(commit_mutex_);
  Status SyncLog() TOPICDB_EXCLUDES(commit_mutex_);

  std::uint64_t DiskBytesOf(rocksdb::ColumnFamilyHandle* family) const;
  // A number that RocksDB keeps, over all families; 0 if it does not know it.
  std::uint64_t Property(const char* name) const;
  Status CheckWritable() const TOPICDB_REQUIRES(commit_mutex_);
  void Poison(const Status& status) TOPICDB_REQUIRES(commit_mutex_);
  // Writes with the log; a failure poisons the shard.
  Status Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch)
      TOPICDB_REQUIRES(commit_mutex_);
  // Writes what the builder has gathered for `commits`, makes it visible, and sets their outcome.
  void WriteBuilt(CommitBuilder* builder, std::span<ShardCommit* const> commits)
      TOPICDB_REQUIRES(commit_mutex_);
  // One step of what can wait; false if nothing was to be done, as for the others. REQUIRES: the
  // sealer's run_mutex() is held, as for the others.
  Result<bool> SealRest(const SlabView& slab_view) TOPICDB_EXCLUDES(commit_mutex_);
  // One step, and notes how it went.
  Result<bool> SealOnce(const Slab& slab, SealScope scope) TOPICDB_EXCLUDES(commit_mutex_);
  // One step.
  Result<bool> SealStep(const Slab& slab, SealScope scope) TOPICDB_EXCLUDES(commit_mutex_);
  bool IsFreshDue(const Slab& slab) const;
  bool IsSealingDue() const TOPICDB_REQUIRES(commit_mutex_);
  // Enough that closing should seal it.
  bool HasMuchFresh() const;
  // Sees to it that sealing does not make parts of commits durable that are not in the log.
  Status FlushUnlogged() TOPICDB_EXCLUDES(commit_mutex_);
  Status SeedStructures(bool reserved, const Slab* previous, StructureEdit* edit,
                        rocksdb::WriteBatch* batch);
  bool IsGarbageDue(const SlabView& view, GarbageScope scope) const;
  Status RemoveGarbageOf(const Slab& slab, std::atomic<bool>* canceled)
      TOPICDB_EXCLUDES(commit_mutex_);
  // Blocks of read-only slabs may have become worth writing anew.
  void NoteRemovals() TOPICDB_REQUIRES(commit_mutex_);
  // Of all slabs that there are.
  Status FlushFamilies(const std::vector<SlabView>& slabs, bool wait);
  void FlushSealed() TOPICDB_EXCLUDES(commit_mutex_);
  // Waits while far more is fresh than should be.
  void WaitForSealing() TOPICDB_EXCLUDES(commit_mutex_);
  // Whether the transaction may be applied: conflicts, preconditions, generation.
  Status CheckTransaction(ShardCommit* commit) const TOPICDB_REQUIRES(commit_mutex_);
  Status CheckConflicts(ShardCommit* commit) const TOPICDB_REQUIRES(commit_mutex_);
  Status CheckRequirements(ShardCommit* commit) const TOPICDB_REQUIRES(commit_mutex_);
  Status CheckGeneration(const ShardCommit& commit) const TOPICDB_REQUIRES(commit_mutex_);
  // Lets open transactions know of commits that are now visible.
  void Remember(const CommitBuilder& builder, std::span<ShardCommit* const> commits)
      TOPICDB_REQUIRES(commit_mutex_);
  // One step of FinishDeletes: false when nothing was left to remove.
  Result<bool> RemoveHidden(const meta::DeleteRecord& record) TOPICDB_EXCLUDES(commit_mutex_);
  // ahead: so many generations that follow each get theirs in the same call, if it makes any.
  Result<FamiliesByName> CreateFamilies(const std::vector<SlabId>& slabs, std::size_t ahead = 0)
      TOPICDB_REQUIRES(commit_mutex_);
  // How many slabs one call to RocksDB should make or drop families of.
  std::size_t SlabsAtOnce() const TOPICDB_REQUIRES(commit_mutex_);
  // What DropSlab has left in RocksDB.
  Status DropLeaving() TOPICDB_REQUIRES(commit_mutex_);
  // Takes its families, and adds its records to `batch`. Structures that vary are taken over from
  // `previous` if there is one.
  Result<std::shared_ptr<Slab>> CreateSlab(const SlabId& id, const meta::SlabRecord& record,
                                           const Slab* previous, FamiliesByName* families,
                                           rocksdb::WriteBatch* batch)
      TOPICDB_REQUIRES(commit_mutex_);
  // What DropSlab notes.
  meta::DropRecord DropOf(const ShardView& view, const Slab& slab) const;
  // Adds the record of a drop that is the next commit, and sees to it that there are not too many.
  Status PutDrop(const meta::DropRecord& drop, rocksdb::WriteBatch* batch) const;
  std::size_t CountDrops() const;
  // A commit that takes slabs away; `made`, if it is not null, is there from then on, and `batch`
  // has its records.
  Status ReplaceSlabs(const std::vector<std::shared_ptr<Slab>>& gone, std::shared_ptr<Slab> made,
                      rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(commit_mutex_);
  // What the steps of MergeLast have in common.
  struct Merge {
    std::shared_ptr<const ShardView> moment;
    std::vector<std::shared_ptr<Slab>> from;
    meta::SlabRecord record;     // of the new slab
    std::shared_ptr<Slab> made;  // null: there is nothing to be kept
    rocksdb::WriteBatch batch;   // what makes it seen
  };
  Result<Merge> BeginMerge(const KeepLastMerge& wanted) TOPICDB_EXCLUDES(commit_mutex_);
  Status FillMerge(const KeepLastMerge& wanted, const InterruptCheck& interrupted, Merge* merge)
      TOPICDB_EXCLUDES(commit_mutex_);
  // Carries out what was deleted since it began, and has the new slab take the place of the others.
  Status InstallMerge(Merge* merge) TOPICDB_REQUIRES(commit_mutex_);
  void NoteDeletes(const ShardCommit& commit) TOPICDB_REQUIRES(commit_mutex_);
  // The slab of a merge, with nothing in it and unknown to readers.
  Status PrepareMerge(const KeepLastMerge& wanted, Merge* merge) TOPICDB_EXCLUDES(commit_mutex_);
  // Its generations leave a number free behind them, for what is kept of them.
  bool KeepsLast(std::uint32_t retention_class) const TOPICDB_REQUIRES(commit_mutex_);
  // From the number of a generation to that of the next one.
  std::uint32_t GenerationStep(std::uint32_t retention_class) const TOPICDB_REQUIRES(commit_mutex_);
  // begin_again: classes whose current slabs have no messages, and count as begun only now.
  Status RotateClasses(std::span<const std::uint32_t> classes,
                       std::optional<std::int64_t> as_if_us = std::nullopt,
                       bool resets_clock = false, std::span<const std::uint32_t> begin_again = {})
      TOPICDB_REQUIRES(commit_mutex_);
  // Has the current slabs of these classes, and of those that have none, begin behind all that is
  // committed: topics have come into them or left.
  Status BeginAnew(std::vector<std::uint32_t> classes) TOPICDB_REQUIRES(commit_mutex_);
  // Classes of rules_ that have no slab at all.
  std::vector<std::uint32_t> MissingClasses() const TOPICDB_REQUIRES(commit_mutex_);
  const SlabView* CurrentSlab(std::uint32_t retention_class) const TOPICDB_REQUIRES(commit_mutex_);
  // Makes what is committed, with these slabs and unfinished deletes, the view of new readers.
  // Whether a transaction is open that began before.
  bool Publish(SlabViews slabs, DeleteRecords deletes) TOPICDB_REQUIRES(commit_mutex_)
      TOPICDB_EXCLUDES(view_mutex_);
  // Whether an append was stored before; sets its outcome then, or if the id is another append's.
  bool IsRepeated(ShardCommit* commit) const TOPICDB_REQUIRES(commit_mutex_);
  // Commits what a job has staged, unless it was committed before.
  Status CommitStaged(ShardCommit* commit) TOPICDB_REQUIRES(commit_mutex_);
  // What is to be noted of a job, but for what it has in this shard.
  meta::JobRecord JobAfter(const StagedMessages& staged) const TOPICDB_REQUIRES(commit_mutex_);
  // Makes the pages of a part those of the slab, where nobody sees them yet.
  Status TakePages(const StagedMessages& staged, const StagedPart& part)
      TOPICDB_REQUIRES(commit_mutex_);
  // Reserves serials beyond those in use and `more`, with an fsync, so that none is ever used
  // twice.
  Status ReserveSerials(std::uint64_t more = 0) TOPICDB_REQUIRES(commit_mutex_);
  Status SaveCleanState() TOPICDB_REQUIRES(commit_mutex_);
  void TakeSlabs(SlabViews slabs) TOPICDB_REQUIRES(commit_mutex_);
  // Adds what the clock has been seen to do, if there is news: for NoteSaved once it is written.
  Result<std::optional<LeapRecord>> PutClock(rocksdb::WriteBatch* batch) const;

  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::uint32_t index_;

  // Constant between Open and Close.
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<FamilyHandle> default_family_;

  mutable Mutex commit_mutex_;
  meta::CommitState state_ TOPICDB_GUARDED_BY(commit_mutex_);
  Status poison_ TOPICDB_GUARDED_BY(commit_mutex_);
  rocks::LogChain log_chain_;
  std::shared_ptr<const RetentionRules> rules_ TOPICDB_GUARDED_BY(commit_mutex_);
  SlabViews slabs_ TOPICDB_GUARDED_BY(commit_mutex_);
  // Messages that unfinished deletes have removed so far, by the serial of their record.
  std::map<std::uint64_t, std::uint64_t> removed_ TOPICDB_GUARDED_BY(commit_mutex_);
  DeleteRecords deletes_ TOPICDB_GUARDED_BY(commit_mutex_) =
      std::make_shared<const std::vector<meta::DeleteRecord>>();
  SharedJobs jobs_ TOPICDB_GUARDED_BY(commit_mutex_) = std::make_shared<const meta::JobRecords>();
  // That were committed since a merge began; absent: there is none.
  std::optional<std::vector<meta::DeleteRecord>> merge_deletes_ TOPICDB_GUARDED_BY(commit_mutex_);
  std::uint64_t deletes_version_ TOPICDB_GUARDED_BY(commit_mutex_) = 0;
  std::uint64_t removals_version_ TOPICDB_GUARDED_BY(commit_mutex_) = NewRemovalsVersion();
  std::vector<SlabView> current_ TOPICDB_GUARDED_BY(commit_mutex_);  // by class
  SlabLists lists_ TOPICDB_GUARDED_BY(commit_mutex_);
  FamilyStock stock_ TOPICDB_GUARDED_BY(commit_mutex_);
  // Dropped but for their families, which go in one call where there are many; or on opening.
  std::vector<std::shared_ptr<Slab>> leaving_ TOPICDB_GUARDED_BY(commit_mutex_);
  OlderCopies older_copies_ TOPICDB_GUARDED_BY(commit_mutex_);
  Status sealing_status_ TOPICDB_GUARDED_BY(commit_mutex_);  // of its last step
  // The last commit that only memory has; 0: there is none.
  std::uint64_t unlogged_serial_ TOPICDB_GUARDED_BY(commit_mutex_) = 0;
  mutable LeapClock clock_;
  TopicCache topics_ TOPICDB_GUARDED_BY(commit_mutex_);
  AppendIds append_ids_;  // thread-safe; empty in a read-only shard
  ConflictMemory memory_ TOPICDB_GUARDED_BY(commit_mutex_);
  std::chrono::steady_clock::time_point memory_aged_at_ TOPICDB_GUARDED_BY(commit_mutex_);

  mutable Mutex view_mutex_;
  std::shared_ptr<const ShardView> view_ TOPICDB_GUARDED_BY(view_mutex_);
  std::uint64_t open_transactions_ TOPICDB_GUARDED_BY(view_mutex_) = 0;

  std::atomic<std::int64_t> clock_ahead_us_{0};
  std::atomic<bool> sealing_failed_{false};  // as sealing_status_, for those without the mutex

  // How much had been written to memory when all of it was last asked to go to files.
  std::atomic<std::uint64_t> flushed_bytes_{0};

  mutable std::atomic<std::int64_t> disk_measured_at_us_{0};
  mutable std::atomic<std::uint64_t> disk_measured_bytes_{0};
  mutable std::atomic<std::uint64_t> disk_written_bytes_{0};  // since then

  CommitQueue<ShardCommit> queue_;  // last: its thread ends before anything else goes
};

}  // namespace topicdb
