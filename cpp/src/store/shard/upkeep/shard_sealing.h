// Seals what is fresh in the slabs of a shard; see layout/layout.h for the steps.
#pragma once

#include <atomic>

#include "store/shard/state/shard_state.h"
#include "store/view/sealer.h"

namespace topicdb {

// Decides what of a shard is to be sealed, takes the steps, and has commits wait while far too much
// is fresh. A Shard owns it; the Sealer of the database calls SealDue from its thread. Thread-safe.
// Whoever takes a step holds the sealer's run_mutex().
class ShardSealing : public Sealable {
 public:
  explicit ShardSealing(ShardState& shard) : shard_(shard) {}

  // Has the sealer's thread call SealDue soon.
  void Wake() { shard_.environment->sealer->Wake(this); }
  // Returns when the thread is done with this shard. Nobody may call Wake any more.
  void Forget() { shard_.environment->sealer->Forget(this); }
  bool IsBusy() const { return shard_.environment->sealer->IsBusyWith(this); }

  // Seals all that is fresh and due by size or count. Then takes one step of what can wait: of
  // merging and spreading, and of what is left to do in slabs that are read-only.
  Result<bool> SealDue() override TOPICDB_EXCLUDES(shard_.mutex);
  // Seals every fresh block.
  Status SealAll() TOPICDB_EXCLUDES(shard_.mutex);

  // Returns whether commits have made enough fresh to wake the sealer.
  bool IsDue() const TOPICDB_REQUIRES(shard_.mutex);
  // Returns whether so much is fresh that closing should seal it.
  bool HasMuchFresh() const;
  // Waits while far more is fresh than should be.
  void WaitForRoom() TOPICDB_EXCLUDES(shard_.mutex);
  // Returns how the last step went.
  Status status() const TOPICDB_REQUIRES(shard_.mutex) { return status_; }

 private:
  bool IsFreshDue(const Slab& slab) const;
  // Takes one step of what can wait. Returns false if nothing was to be done, as the next two do.
  Result<bool> SealRest(const SlabView& slab_view) TOPICDB_EXCLUDES(shard_.mutex);
  // Takes one step, and notes how it went.
  Result<bool> SealOnce(const Slab& slab, SealScope scope) TOPICDB_EXCLUDES(shard_.mutex);
  Result<bool> SealStep(const Slab& slab, SealScope scope) TOPICDB_EXCLUDES(shard_.mutex);
  void FlushSealed() TOPICDB_EXCLUDES(shard_.mutex);

  ShardState& shard_;
  Status status_ TOPICDB_GUARDED_BY(shard_.mutex);  // of its last step
  std::atomic<bool> has_failed_{false};             // as status_, for those without the mutex
};

}  // namespace topicdb
