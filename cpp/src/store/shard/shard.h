// A shard: one RocksDB with one writer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rocks/live_files.h"
#include "store/shard/commit/committer.h"
#include "store/shard/commit/delete_finisher.h"
#include "store/shard/commit/merge_deletes.h"
#include "store/shard/commit/shard_commit.h"
#include "store/shard/commit/shard_jobs.h"
#include "store/shard/commit/shard_leader.h"
#include "store/shard/commit/staging_area.h"
#include "store/shard/commit/transaction_check.h"
#include "store/shard/generation/generations.h"
#include "store/shard/generation/last_merger.h"
#include "store/shard/generation/slab_dropper.h"
#include "store/shard/generation/slab_maker.h"
#include "store/shard/replay/shard_replay.h"
#include "store/shard/state/disk_usage.h"
#include "store/shard/state/shard_loader.h"
#include "store/shard/state/shard_state.h"
#include "store/shard/upkeep/garbage_collector.h"
#include "store/shard/upkeep/shard_sealing.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/stats.h"
#include "topicdb/types/times.h"

namespace topicdb {

// The files of a shard at one moment, from which a copy of the shard is made.
struct ShardFiles {
  Serial serial;  // of the last commit in them
  std::vector<rocks::LiveFile> files;
  // Keeps the files from being removed. It must be destroyed before the shard closes.
  std::unique_ptr<rocks::FilesHold> hold;
};

// Commits messages to the current slabs of a shard, hands out views of the slabs, and looks after
// them. It owns the state of the shard and the objects that work on it, and passes each call on to
// one of these. The open database and its readers share it; Close of the database closes it.
// Thread-safe; for the order of locks see ShardState.
class Shard {
 public:
  // Opens the shard with this number. With `create`, creates it first; its directory must be
  // absent. If the environment is read-only, tries again for some seconds while a writer changes
  // the files. Returns kLocked, kCorruption or kStorage.
  static Result<std::shared_ptr<Shard>> Open(std::shared_ptr<const ShardEnvironment> environment,
                                             std::uint32_t index, bool create);
  // Opens a shard that the entries of a log bring up to date, with the log of the environment. The
  // shard follows until Lead is called: readers see what Replay has taken, and nobody can write.
  // Makes the RocksDB if there is none. Returns kCorruption or kStorage.
  // REQUIRES: the caller has the lock of the shard
  static Result<std::shared_ptr<Shard>> OpenToFollow(
      std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  std::uint32_t index() const { return state_->index; }
  // Returns "shard 2 of fleet.db", for messages.
  std::string Name() const { return state_->Name(); }
  // Returns what readers see now. Not null once Open has returned the shard.
  std::shared_ptr<const ShardView> view() const { return state_->view(); }
  // Returns the clock by which the shard assigns and notes times. Thread-safe.
  LeapClock& clock() const { return state_->clock; }

  // The next three are for a shard that OpenToFollow has opened. One thread at a time calls them.

  // Takes a batch that was written to the RocksDB of the shard: see ShardReplay::Take.
  // REQUIRES (Replay): the shard follows
  Status Replay(const rocksdb::WriteBatch& batch) { return replay_.Take(batch); }
  // Lets others write to the shard, through this log. First finishes through it what the process
  // that led before may have left: it makes a shard that is not made yet, drops families that
  // nobody has, begins generations that are missing, and adopts the rules of the database. If this
  // fails, call Follow.
  Status Lead(std::shared_ptr<rocks::ShardLog> log) TOPICDB_EXCLUDES(state_->mutex);
  // Lets nobody write any more. Calls that are under way fail with what the log before returns, and
  // may go on for a while. `log` refuses all writes. Returns the reason if RocksDB has failed, so
  // that the shard must be opened again.
  // REQUIRES (Follow): the log before writes no more
  Status Follow(std::shared_ptr<rocks::ShardLog> log) TOPICDB_EXCLUDES(state_->mutex);
  // Returns the RocksDB of the shard, for its log.
  OpenedShard opened() const;
  // Returns Ok if this process may write to the shard, and kNotLeader if another replica leads. It
  // may be another one by the time of the write.
  Status MayWrite() const { return state_->log()->MayWrite(); }

  // Commits, and returns when the commit is as durable as it asks and its deletes are finished.
  // Sets the outcome in `commit`. A failure to write or to fsync poisons the shard: nothing more is
  // written until the shard is opened again.
  void Commit(ShardCommit* commit);
  // Queues the commit and returns true. Calls `done` from another thread when the commit is over.
  // What its deletes hide is removed after that, in the background. If the queue is still full at
  // the deadline `room_until`, returns false and destroys the commit; nobody calls `done` then.
  bool CommitAsync(std::unique_ptr<ShardCommit> commit, std::function<void()> done,
                   std::optional<GroupCommit::Clock::time_point> room_until = std::nullopt);
  // Commits what is queued; no more can be queued. May be repeated.
  void FinishQueue() { committer_.Close(); }
  // Prepares a transaction that is to begin here while another replica leads: that one remembers
  // what is committed from now on, and this one has what was committed before. Does nothing if this
  // process leads, or alone has the shard. Returns what ShardLeader::BeginTransaction returns.
  Status PrepareTransaction();
  // Returns the view that a transaction reads, which begins now. From now on, the shard remembers
  // what is committed, until EndTransaction and at most for the conflict window. The caller must
  // call EndTransaction once for each call.
  std::shared_ptr<const ShardView> BeginTransaction() { return state_->BeginTransaction(); }
  void EndTransaction() { state_->EndTransaction(); }
  // Returns what the shard knows of the append with this id, or nothing if it knows none. If
  // another replica leads, asks that one. REQUIRES (FindAppend): the shard is open for writing
  Result<std::optional<KnownAppend>> FindAppend(std::string_view id) const;
  // Returns what FindAppend does. Of a shard that another replica leads, it finds nothing.
  std::optional<KnownAppend> FindAppendHere(std::string_view id) const {
    return committer_.FindAppend(id);
  }

  // The next three are for the calls of other replicas, which this one serves while it leads. They
  // and RotateHere and DropSlabHere return kNotLeader if it does not.

  // Applies commits in their order, as one group, finishes their deletes, and sets the outcome of
  // each. Does not wait for other commits.
  void CommitHere(std::span<ShardCommit* const> group);
  // Remembers what is committed from now on, as for a transaction of this process.
  Status BeginElsewhere();

  // Waits for the group that is being committed. When this returns, view() has that group.
  void AwaitCommit() const TOPICDB_EXCLUDES(state_->mutex) { const MutexLock lock(state_->mutex); }
  // Returns by how much the last timestamp that was assigned was ahead of the clock then.
  std::chrono::microseconds clock_ahead() const { return committer_.clock_ahead(); }
  // These work as the methods of ShardState do.
  Status SaveClock() { return state_->SaveClock(); }
  Status CheckInPlace() { return state_->CheckInPlace(); }
  // Works as DeleteFinisher::Finish does.
  Status FinishDeletes() { return deletes_.Finish(); }

  // These work as the methods of ShardJobs do.
  std::vector<JobInfo> Jobs() const { return jobs_.Infos(); }
  Status ForgetJobs() { return jobs_.ForgetOld(); }
  Status RemoveUnplaced() { return jobs_.RemoveUnplaced(); }

  // These work as the methods of Generations do.
  // A shard that has replicas has the slab of reserved topics once somebody has led it.
  Status EnsureReservedSlab() {
    return IsFollowing() ? Status::Ok() : generations_.EnsureReserved();
  }
  Status Adopt(std::shared_ptr<const RetentionRules> rules) {
    return generations_.Adopt(std::move(rules));
  }
  // Returns the version of the rules that the shard follows.
  std::uint64_t rules_version() const TOPICDB_EXCLUDES(state_->mutex) {
    const MutexLock lock(state_->mutex);
    return state_->rules->version();
  }
  Status RotateHere(const RotateOptions& options) {
    return generations_.Rotate(options.retention_class, options.as_if, options.resets_clock,
                               options.layout);
  }
  // These work as the methods of SlabDropper do.
  Status DropSlabHere(RetentionClassId retention_class, Generation generation) {
    return dropper_.Drop(retention_class, generation);
  }
  Status FinishDrops() { return dropper_.Finish(); }
  Result<std::vector<meta::DropRecord>> DropsBehind(Serial serial) const {
    return dropper_.DropsBehind(serial);
  }
  // Works as LastMerger::Run does.
  Result<std::uint64_t> MergeLast(const KeepLastMerge& merge, const InterruptCheck& interrupted) {
    return merger_.Run(merge, interrupted);
  }

  // These are for shards that have replicas. StageHere works as StagingArea::Do does.
  Status StageHere(const StagingStep& step) { return staging_.Do(step); }
  // Applies a job that is committed, unless it was applied before. One thread at a time calls this
  // and RemoveUnplaced. Returns kNotLeader if another replica leads, kClosed once `canceled` is
  // set, and the errors of StagingArea and Commit.
  Status ApplyJob(const StagedJob& job, const std::atomic<bool>& canceled);
  // Works as StagingArea::RemoveGarbage does.
  Status RemoveStagedGarbage(std::atomic<bool>* canceled) {
    return staging_.RemoveGarbage(canceled);
  }

  // These do as RotateHere, DropSlabHere, StageHere and SealAllHere do, here or at the replica that
  // leads.
  Status Rotate(std::optional<RetentionClassId> retention_class, std::optional<WallTime> as_if,
                bool resets_clock = false, std::optional<LayoutKind> layout = std::nullopt);
  Status DropSlab(RetentionClassId retention_class, Generation generation);
  Status Stage(const StagingStep& step);
  Status SealAll();

  // Seals every fresh block.
  Status SealAllHere() { return sealing_.SealAll(); }
  // Works as GarbageCollector::Collect does.
  Status RemoveGarbage(GarbageScope scope, std::atomic<bool>* canceled) {
    return garbage_.Collect(scope, canceled);
  }
  // Moves what is in memory to files. Nobody can commit meanwhile.
  Status Flush() { return state_->Flush(); }
  // Moves what is in memory to files, while others commit.
  Status FlushMemory() { return state_->FlushFamilies(view()->slabs(), /*wait=*/true); }

  // Pause locks the commit mutex, and Resume unlocks it, so nothing is committed in between. The
  // thread safety analysis cannot follow this over several shards.
  void Pause() TOPICDB_NO_THREAD_SAFETY_ANALYSIS { state_->mutex.Lock(); }
  void Resume() TOPICDB_NO_THREAD_SAFETY_ANALYSIS { state_->mutex.Unlock(); }
  // Returns the files that hold everything that is committed. If the log lacks commits, moves these
  // to files first. Returns kReadOnly or kStorage.
  // REQUIRES (FilesNow): the caller has called Pause, and not yet Resume
  Result<ShardFiles> FilesNow();
  // Moves everything in memory to files, and returns the files of a moment after that, while the
  // shard may be written. It is for shards with replicas, whose RocksDB has no log. Does not set
  // the serial, which only the files know.
  Result<ShardFiles> FilesOfReplica();

  ShardStats Stats() const TOPICDB_EXCLUDES(state_->mutex);
  // These work as the methods of DiskUsage do.
  std::uint64_t DiskBytes() const { return disk_.Bytes(); }
  std::uint64_t MeasureDiskBytes() const { return disk_.Measure(); }
  // Works as GarbageCollector::Measure does.
  void MeasureSlab(const Slab& slab, SlabUsage* usage) const { garbage_.Measure(slab, usage); }

  // Flushes, closes RocksDB and releases the lock. May be repeated.
  // REQUIRES (Close): no other call is under way, and nobody else holds a view of the shard
  Status Close() TOPICDB_EXCLUDES(state_->mutex);

 private:
  explicit Shard(std::unique_ptr<ShardState> state);

  // Returns whether another replica may lead.
  bool IsFollowing() const { return state_->environment->leader != nullptr && !MayWrite().ok(); }

  // Publishes the loaded slabs, and makes the shard one that can be written unless its environment
  // is read-only.
  Status Begin(LoadedShard loaded) TOPICDB_EXCLUDES(state_->mutex);
  // Makes the first slabs if the shard is new. Otherwise publishes the slabs, and begins new
  // generations if the retention rules have changed since somebody last wrote to the shard.
  Status BeginToWrite(WriterRecords records, std::vector<SlabView> slabs)
      TOPICDB_REQUIRES(state_->mutex);
  // Drops the families that no record names, and the records of slabs that are marked as dropping.
  // The families without a record were made ahead, or a crash came before their record.
  Status DropLeftovers(WriterRecords* records) TOPICDB_REQUIRES(state_->mutex);
  // Finishes the deletes of a commit that was written here.
  void FinishDeletesOf(ShardCommit* commit);
  // Has the sealer seal what is left to do in slabs that were read-only when somebody last wrote.
  void WakeSealing();
  // Returns kCorruption unless each class has exactly one current generation. Classes that may not
  // have got a slab yet are excepted: the reserved one, and those that were added later.
  Status CheckCurrent(const std::vector<SlabView>& slabs) const TOPICDB_REQUIRES(state_->mutex);
  // Writes the numbers that the next opening would have to find out, and drops the families that
  // nobody uses any more.
  Status SettleToClose() TOPICDB_EXCLUDES(state_->mutex);

  const std::unique_ptr<ShardState> state_;
  DiskUsage disk_;
  GarbageCollector garbage_;
  ShardSealing sealing_;
  TransactionCheck transactions_;
  MergeDeletes merge_deletes_;
  DeleteFinisher deletes_;
  ShardJobs jobs_;
  StagingArea staging_;
  SlabMaker maker_;
  SlabDropper dropper_;
  Generations generations_;
  LastMerger merger_;
  ShardReplay replay_;
  Committer committer_;  // last: its thread ends before anything else goes
};

}  // namespace topicdb
