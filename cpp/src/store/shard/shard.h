// A shard: one RocksDB with one writer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rocks/live_files.h"
#include "store/shard/commit/committer.h"
#include "store/shard/commit/delete_finisher.h"
#include "store/shard/commit/merge_deletes.h"
#include "store/shard/commit/shard_commit.h"
#include "store/shard/commit/shard_jobs.h"
#include "store/shard/commit/transaction_check.h"
#include "store/shard/generation/generations.h"
#include "store/shard/generation/last_merger.h"
#include "store/shard/generation/slab_dropper.h"
#include "store/shard/generation/slab_maker.h"
#include "store/shard/state/disk_usage.h"
#include "store/shard/state/shard_loader.h"
#include "store/shard/state/shard_state.h"
#include "store/shard/upkeep/garbage_collector.h"
#include "store/shard/upkeep/shard_sealing.h"
#include "topicdb/types/stats.h"

namespace topicdb {

// What a copy of a shard is made of.
struct ShardFiles {
  std::uint64_t serial = 0;  // of the last commit in them
  std::vector<rocks::LiveFile> files;
  std::unique_ptr<rocks::FilesHold> hold;  // must be gone before the shard closes
};

// Commits messages to the current slabs of a shard, hands out views of them, and looks after them.
// It holds the state of the shard and the objects that work on it; each call goes to one of these.
// The open database owns it, and readers share it. Thread-safe; for the order of locks see
// ShardState.
class Shard {
 public:
  // Creates the shard if `create`, which needs its directory to be absent. kLocked, kCorruption.
  static Result<std::shared_ptr<Shard>> Open(std::shared_ptr<const ShardEnvironment> environment,
                                             std::uint32_t index, bool create);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  std::uint32_t index() const { return state_->index; }
  // Returns "shard 2 of fleet.db", for messages.
  std::string Name() const { return state_->Name(); }
  std::shared_ptr<const ShardView> view() const { return state_->view(); }
  // Its view of the clocks. Thread-safe.
  LeapClock& clock() const { return state_->clock; }

  // Commits, and waits until that is as durable as asked. The outcome is in `commit`. A failure to
  // write or to fsync poisons the shard: nothing more is written until it is opened again.
  void Commit(ShardCommit* commit);
  // As Commit, but returns at once; `done` is called from another thread.
  void CommitAsync(std::unique_ptr<ShardCommit> commit, std::function<void()> done) {
    committer_.CommitAsync(std::move(commit), std::move(done));
  }
  // Returns the moment at which a transaction begins. What is committed from then on is remembered,
  // until EndTransaction and at most for the conflict window.
  std::shared_ptr<const ShardView> BeginTransaction() { return state_->BeginTransaction(); }
  void EndTransaction() { state_->EndTransaction(); }
  // Returns what it knows of an append. REQUIRES: it is open for writing
  std::optional<KnownAppend> FindAppend(std::string_view id) const {
    return committer_.FindAppend(id);
  }
  // Returns when what is being committed is seen by new views.
  void AwaitCommit() const TOPICDB_EXCLUDES(state_->mutex) { const MutexLock lock(state_->mutex); }
  // Returns by how much the last timestamp that was assigned was ahead of the clock then.
  std::int64_t clock_ahead_us() const { return committer_.clock_ahead_us(); }
  // As ShardState::SaveClock.
  Status SaveClock() { return state_->SaveClock(); }
  // As DeleteFinisher::Finish.
  Status FinishDeletes() { return deletes_.Finish(); }

  // As those of ShardJobs.
  std::vector<JobInfo> Jobs() const { return jobs_.Infos(); }
  Status ForgetJobs() { return jobs_.ForgetOld(); }
  Status RemoveUnplaced() { return jobs_.RemoveUnplaced(); }

  // As those of Generations.
  Status EnsureReservedSlab() { return generations_.EnsureReserved(); }
  Status Adopt(std::shared_ptr<const RetentionRules> rules) {
    return generations_.Adopt(std::move(rules));
  }
  Status Rotate(std::optional<RetentionClassId> retention_class,
                std::optional<std::int64_t> as_if_us, bool resets_clock = false) {
    return generations_.Rotate(retention_class, as_if_us, resets_clock);
  }
  // As those of SlabDropper.
  Status DropSlab(RetentionClassId retention_class, Generation generation) {
    return dropper_.Drop(retention_class, generation);
  }
  Status FinishDrops() { return dropper_.Finish(); }
  Result<std::vector<meta::DropRecord>> DropsBehind(std::uint64_t serial) const {
    return dropper_.DropsBehind(serial);
  }
  // As LastMerger::Run.
  Result<std::uint64_t> MergeLast(const KeepLastMerge& merge, const InterruptCheck& interrupted) {
    return merger_.Run(merge, interrupted);
  }

  // Seals every fresh block.
  Status SealAll() { return sealing_.SealAll(); }
  // As GarbageCollector::Collect.
  Status RemoveGarbage(GarbageScope scope, std::atomic<bool>* canceled) {
    return garbage_.Collect(scope, canceled);
  }
  Status Flush() { return state_->Flush(); }
  // Moves what is in memory to files, while others commit.
  Status FlushMemory() { return state_->FlushFamilies(view()->slabs(), /*wait=*/true); }

  // Between these two calls nothing is committed. The commit mutex is held in between, which the
  // analysis cannot follow over several shards.
  void Pause() TOPICDB_NO_THREAD_SAFETY_ANALYSIS { state_->mutex.Lock(); }
  void Resume() TOPICDB_NO_THREAD_SAFETY_ANALYSIS { state_->mutex.Unlock(); }
  // REQUIRES: between Pause and Resume
  Result<ShardFiles> FilesNow();

  ShardStats Stats() const TOPICDB_EXCLUDES(state_->mutex);
  // As those of DiskUsage.
  std::uint64_t DiskBytes() const { return disk_.Bytes(); }
  std::uint64_t MeasureDiskBytes() const { return disk_.Measure(); }
  // Fills in the bytes of a slab.
  void MeasureSlab(const Slab& slab, SlabUsage* usage) const { garbage_.Measure(slab, usage); }

  // Flushes, closes RocksDB, releases the lock. No call may be under way, no view held elsewhere.
  Status Close() TOPICDB_EXCLUDES(state_->mutex);

 private:
  // Takes the state and the ids of appends out of `loaded`.
  explicit Shard(LoadedShard* loaded);

  // Makes the first slabs, or publishes the loaded ones and ends what was cut short.
  Status Begin(LoadedShard loaded, bool create) TOPICDB_EXCLUDES(state_->mutex);
  Status TakeLoaded(LoadedShard* loaded) TOPICDB_REQUIRES(state_->mutex);
  // Drops what no record speaks of (made ahead, or a crash while making it) and what is marked as
  // dropping.
  Status DropLeftovers(LoadedShard* loaded) TOPICDB_REQUIRES(state_->mutex);
  // Returns kCorruption unless each class has one current generation. A class that was added later
  // may have yet to get it.
  Status CheckCurrent(const std::vector<SlabView>& slabs) const TOPICDB_REQUIRES(state_->mutex);
  // Writes what the next opening need not find out, and drops what is left over.
  Status SettleToClose() TOPICDB_EXCLUDES(state_->mutex);

  const std::unique_ptr<ShardState> state_;
  DiskUsage disk_;
  GarbageCollector garbage_;
  ShardSealing sealing_;
  TransactionCheck transactions_;
  MergeDeletes merge_deletes_;
  DeleteFinisher deletes_;
  ShardJobs jobs_;
  SlabMaker maker_;
  SlabDropper dropper_;
  Generations generations_;
  LastMerger merger_;
  Committer committer_;  // last: its thread ends before anything else goes
};

}  // namespace topicdb
