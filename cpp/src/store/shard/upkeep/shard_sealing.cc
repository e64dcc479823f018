#include "store/shard/upkeep/shard_sealing.h"

#include <algorithm>
#include <new>

#include "rocks/rocks_compat.h"

namespace topicdb {

namespace {

// A commit waits while a slab has more fresh blocks than this many times the limits.
constexpr std::uint64_t kFreshPatience = 2;
// Closing seals fresh blocks if they have at least 1 / kFreshAtClose of the limit of bytes.
constexpr std::uint64_t kFreshAtClose = 16;

}  // namespace

bool ShardSealing::IsFreshDue(const Slab& slab) const {
  const SealLimits& limits = shard_.environment->seal_limits;
  const LayoutState& state = *slab.layout_state();
  return slab.log() != nullptr && state.fresh_blocks > 0 &&
         (state.fresh_blocks >= limits.fresh_blocks_max ||
          state.fresh_bytes >= limits.fresh_bytes_max);
}

// Read-only slabs are sealed when they become read-only. Only if that has failed, commits wake the
// sealer for them.
bool ShardSealing::IsDue() const {
  return has_failed_ || std::any_of(shard_.lists.current->begin(), shard_.lists.current->end(),
                                    [&](const SlabView& view) { return IsFreshDue(*view.slab); });
}

bool ShardSealing::HasMuchFresh() const {
  const auto moment = shard_.view();
  return std::any_of(
      moment->slabs().begin(), moment->slabs().end(), [&](const SlabView& slab_view) {
        const std::uint64_t bytes = slab_view.slab->layout_state()->fresh_bytes;
        return bytes > 0 &&
               bytes >= shard_.environment->seal_limits.fresh_bytes_max / kFreshAtClose;
      });
}

void ShardSealing::WaitForRoom() {
  const SealLimits& limits = shard_.environment->seal_limits;
  while (!has_failed_ && !shard_.environment->sealer->stopped()) {
    const auto moment = shard_.view();
    const bool too_much =
        std::any_of(moment->current().begin(), moment->current().end(), [&](const SlabView& view) {
          const LayoutState& state = *view.slab->layout_state();
          // Divides, because a product of the limits may be too large for its type.
          return state.fresh_bytes / kFreshPatience > limits.fresh_bytes_max ||
                 state.fresh_blocks / kFreshPatience > limits.fresh_blocks_max;
        });
    if (!too_much || !Wake()) return;
    shard_.environment->sealer->WaitForStep();
  }
}

Result<bool> ShardSealing::SealDue() {
  // This does not hold the view, because as long as somebody does, files keep what sealing has
  // removed.
  const SlabViews slabs = shard_.view()->shared_slabs();
  for (const SlabView& slab_view : *slabs) {
    for (bool more = true; more && !slab_view.read_only && IsFreshDue(*slab_view.slab);) {
      if (shard_.environment->sealer->stopped()) return false;
      TOPICDB_ASSIGN_OR_RETURN(more, SealOnce(*slab_view.slab, SealScope::kDue));
    }
  }
  for (const SlabView& slab_view : *slabs) {
    if (shard_.environment->sealer->stopped()) return false;
    TOPICDB_ASSIGN_OR_RETURN(const bool did_something, SealRest(slab_view));
    if (did_something) return true;
  }
  return false;
}

Result<bool> ShardSealing::SealRest(const SlabView& slab_view) {
  using Seen = SlabUpkeep::Seen;
  if (slab_view.slab->log() == nullptr) return false;
  std::atomic<Seen>& seen = slab_view.slab->upkeep().seen;
  const Seen done = slab_view.read_only ? Seen::kClosedDone : Seen::kOpenDone;
  if (seen == done) return false;
  seen = Seen::kLooking;
  const SealScope scope = slab_view.read_only ? SealScope::kClosed : SealScope::kDue;
  Result<bool> sealed = SealOnce(*slab_view.slab, scope);
  if (!sealed.ok()) seen = Seen::kNothing;
  // The slab counts as done unless something was removed from it meanwhile.
  Seen looking = Seen::kLooking;
  if (sealed.ok() && !*sealed) seen.compare_exchange_strong(looking, done);
  return sealed;
}

Status ShardSealing::SealAll() {
  if (shard_.environment->read_only) return Status::Ok();
  const MutexLock run(shard_.environment->sealer->run_mutex());
  const SlabViews slabs = shard_.view()->shared_slabs();
  for (const SlabView& slab_view : *slabs) {
    for (bool more = slab_view.slab->log() != nullptr; more;) {
      TOPICDB_ASSIGN_OR_RETURN(more, SealOnce(*slab_view.slab, SealScope::kFresh));
    }
  }
  return Status::Ok();
}

Result<bool> ShardSealing::SealOnce(const Slab& slab, SealScope scope) {
  Result<bool> sealed = false;
  try {
    sealed = SealStep(slab, scope);
  } catch (const std::bad_alloc&) {  // nobody could catch it in the sealer's thread
    sealed = StorageFault("sealing " + shard_.Name() + ": there is not enough memory");
  }
  const bool has_failed = !sealed.ok() && sealed.status().code() != Code::kNotLeader;
  has_failed_ = has_failed;
  {
    const MutexLock lock(shard_.mutex);
    status_ = has_failed ? sealed.status() : Status::Ok();
  }
  if (sealed.ok() && *sealed) slab.upkeep().seen = SlabUpkeep::Seen::kNothing;
  shard_.environment->sealer->NotifyStep();
  if (sealed.ok() && *sealed) FlushSealed();
  return sealed;
}

Result<bool> ShardSealing::SealStep(const Slab& slab, SealScope scope) {
  const auto moment = shard_.view();
  if (moment->Find(slab.id()) == nullptr) return false;  // dropped meanwhile
  const std::shared_ptr<rocks::ShardLog> log = shard_.log();
  TOPICDB_RETURN_IF_ERROR(log->MayWrite());
  RocksSource source = moment->Source(slab);
  source.log = log.get();
  const auto sealing =
      slab.log()->NewSealing(source, slab.layout_state(), shard_.environment->seal_limits);
  const std::string name = moment->Describe(slab.id());
  Result<bool> gathered = sealing->Gather(scope);
  TOPICDB_RETURN_IF_ERROR(gathered.status().WithContext(name));
  if (!*gathered) return false;
  TOPICDB_RETURN_IF_ERROR(shard_.FlushUnlogged());
  TOPICDB_RETURN_IF_ERROR(sealing->WriteData().WithContext(name));

  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  if (shard_.log() != log) {  // another replica may have sealed the same blocks
    return NotLeader("another replica has led " + shard_.Name() + " meanwhile: nothing was sealed");
  }
  if (!shard_.HasSlab(slab)) return false;
  rocksdb::WriteBatch batch;
  TOPICDB_RETURN_IF_ERROR(
      sealing->Install({shard_.db.get(), nullptr, slab.families()}, &batch).WithContext(name));
  TOPICDB_RETURN_IF_ERROR(shard_.Write({rocks::EntryKind::kSealing}, &batch));
  sealing->Apply();
  slab.upkeep().removed_at = shard_.db->GetLatestSequenceNumber();
  slab.upkeep().may_hold_garbage = true;
  shard_.Publish(shard_.slabs, shard_.deletes);
  return true;
}

// Once most fresh blocks were sealed, few of them are left in memory. A flush at this moment does
// not write the removed ones to files.
void ShardSealing::FlushSealed() {
  // The memory of many slabs takes more than this even if they are empty, so this asks how much was
  // written.
  const std::uint64_t enough = shard_.environment->resources.write_buffer_bytes / 2;
  if (shard_.UnflushedBytes() < enough) return;
  const std::uint64_t memory = shard_.Property("rocksdb.cur-size-all-mem-tables");
  const SlabViews slabs = shard_.view()->shared_slabs();
  std::uint64_t fresh = 0;
  for (const SlabView& slab_view : *slabs) fresh += slab_view.slab->layout_state()->fresh_bytes;
  if (memory < enough || memory < 4 * fresh) return;
  // This does not wait for the flush. If the flush fails, a later one fails where it matters.
  shard_.FlushFamilies(*slabs, /*wait=*/false).IgnoreError();
}

}  // namespace topicdb
