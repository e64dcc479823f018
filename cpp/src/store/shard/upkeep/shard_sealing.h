// Seals the fresh blocks in the slabs of a shard; see layout/layout.h for the steps.
#pragma once

#include <atomic>

#include "store/shard/state/shard_state.h"
#include "store/view/sealer.h"

namespace topicdb {

// Decides which blocks of a shard are sealed when, seals them step by step, and makes commits wait
// while there are far too many fresh blocks. A Shard owns it; the Sealer of the database calls
// SealDue from its thread. Thread-safe. Whoever takes a step holds the sealer's run_mutex().
class ShardSealing : public Sealable {
 public:
  explicit ShardSealing(ShardState& shard) : shard_(shard) {}

  // Makes the sealer's thread call SealDue soon. Returns false if there is no thread, because the
  // system gives no more.
  bool Wake() { return shard_.environment->sealer->Wake(this); }
  // Returns when the thread is done with this shard. Nobody may call Wake any more.
  void Forget() { shard_.environment->sealer->Forget(this); }
  // Returns whether the sealer's thread seals this shard, or is about to.
  bool IsBusy() const { return shard_.environment->sealer->IsBusyWith(this); }

  // Seals the fresh blocks of current slabs that exceed a limit of size or number. Then takes one
  // step of the work that can wait: merging and spreading blocks, and what is left to do in
  // read-only slabs. Returns true if it took such a step, and false once nothing is left or the
  // sealer has stopped.
  Result<bool> SealDue() override TOPICDB_EXCLUDES(shard_.mutex);
  // Seals every fresh block.
  Status SealAll() TOPICDB_EXCLUDES(shard_.mutex);

  // Returns whether the sealer should be woken: a current slab has fresh blocks beyond a limit, or
  // the last step has failed.
  bool IsDue() const TOPICDB_REQUIRES(shard_.mutex);
  // Returns whether a slab has enough fresh bytes for Close to seal them.
  bool HasMuchFresh() const;
  // Waits while a current slab has more than twice the fresh blocks that it should have. Does not
  // wait once sealing has failed or the sealer has stopped, or if it has no thread.
  void WaitForRoom() TOPICDB_EXCLUDES(shard_.mutex);
  // Forgets that the last step has failed.
  void ForgetFailure() TOPICDB_REQUIRES(shard_.mutex) {
    has_failed_ = false;
    status_ = Status::Ok();
  }
  // Returns the outcome of the last step.
  Status status() const TOPICDB_REQUIRES(shard_.mutex) { return status_; }

 private:
  // Returns whether the fresh blocks of a slab exceed a limit.
  bool IsFreshDue(const Slab& slab) const;
  // SealRest, SealOnce and SealStep return false if there was nothing to do.

  // Takes one step of the work that can wait in a slab.
  Result<bool> SealRest(const SlabView& slab_view) TOPICDB_EXCLUDES(shard_.mutex);
  // Takes one step, notes its outcome, and wakes those that wait for it.
  Result<bool> SealOnce(const Slab& slab, SealScope scope) TOPICDB_EXCLUDES(shard_.mutex);
  // Takes one step.
  Result<bool> SealStep(const Slab& slab, SealScope scope) TOPICDB_EXCLUDES(shard_.mutex);
  // Moves what is in memory to files if most of it was sealed.
  void FlushSealed() TOPICDB_EXCLUDES(shard_.mutex);

  ShardState& shard_;
  Status status_ TOPICDB_GUARDED_BY(shard_.mutex);  // of the last step
  std::atomic<bool> has_failed_{false};             // !status_.ok(), for callers without the mutex
};

}  // namespace topicdb
