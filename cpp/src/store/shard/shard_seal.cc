// Sealing what is fresh in a shard; see layout/layout.h for the steps.

#include <algorithm>

#include "rocks/rocks_compat.h"
#include "store/shard/shard.h"

namespace topicdb {

namespace {

// A commit waits while so many times the bounds are fresh.
constexpr std::uint64_t kFreshPatience = 2;
// Closing seals what is fresh if it is at least this part of the bound.
constexpr std::uint64_t kFreshAtClose = 16;

}  // namespace

bool Shard::IsFreshDue(const Slab& slab) const {
  const SealLimits& limits = environment_->seal_limits;
  const LayoutState& state = *slab.layout_state();
  return slab.layout().seals() && state.fresh_blocks > 0 &&
         (state.fresh_blocks >= limits.fresh_blocks_max ||
          state.fresh_bytes >= limits.fresh_bytes_max);
}

// Read-only slabs are sealed when they become that; only if that failed is it tried again.
bool Shard::IsSealingDue() const {
  return sealing_failed_ ||
         std::any_of(lists_.current->begin(), lists_.current->end(),
                     [&](const SlabView& view) { return IsFreshDue(*view.slab); });
}

bool Shard::HasMuchFresh() const {
  const auto moment = view();
  return std::any_of(
      moment->slabs().begin(), moment->slabs().end(), [&](const SlabView& slab_view) {
        const std::uint64_t bytes = slab_view.slab->layout_state()->fresh_bytes;
        return bytes > 0 && bytes >= environment_->seal_limits.fresh_bytes_max / kFreshAtClose;
      });
}

void Shard::WaitForSealing() {
  const SealLimits& limits = environment_->seal_limits;
  while (!sealing_failed_ && !environment_->sealer->stopped()) {
    const auto moment = view();
    const bool too_much =
        std::any_of(moment->current().begin(), moment->current().end(), [&](const SlabView& view) {
          const LayoutState& state = *view.slab->layout_state();
          return state.fresh_bytes > kFreshPatience * limits.fresh_bytes_max ||
                 state.fresh_blocks > kFreshPatience * limits.fresh_blocks_max;
        });
    if (!too_much) return;
    environment_->sealer->Wake(this);
    environment_->sealer->WaitForStep();
  }
}

Result<bool> Shard::SealDue() {
  // Not the view: as long as that is held, files keep what sealing has removed.
  const SlabViews slabs = view()->shared_slabs();
  for (const SlabView& slab_view : *slabs) {
    for (bool more = true; more && !slab_view.read_only && IsFreshDue(*slab_view.slab);) {
      if (environment_->sealer->stopped()) return false;
      TOPICDB_ASSIGN_OR_RETURN(more, SealOnce(*slab_view.slab, SealScope::kDue));
    }
  }
  for (const SlabView& slab_view : *slabs) {
    if (environment_->sealer->stopped()) return false;
    TOPICDB_ASSIGN_OR_RETURN(const bool did_something, SealRest(slab_view));
    if (did_something) return true;
  }
  return false;
}

Result<bool> Shard::SealRest(const SlabView& slab_view) {
  using Seen = SlabUpkeep::Seen;
  if (!slab_view.slab->layout().seals()) return false;
  std::atomic<Seen>& seen = slab_view.slab->upkeep().seen;
  const Seen done = slab_view.read_only ? Seen::kClosedDone : Seen::kOpenDone;
  if (seen == done) return false;
  seen = Seen::kLooking;
  const SealScope scope = slab_view.read_only ? SealScope::kClosed : SealScope::kDue;
  Result<bool> sealed = SealOnce(*slab_view.slab, scope);
  if (!sealed.ok()) seen = Seen::kNothing;
  // Unless something was removed while it looked.
  Seen looking = Seen::kLooking;
  if (sealed.ok() && !*sealed) seen.compare_exchange_strong(looking, done);
  return sealed;
}

Status Shard::SealAll() {
  if (environment_->read_only) return Status::Ok();
  const MutexLock run(environment_->sealer->run_mutex());
  const SlabViews slabs = view()->shared_slabs();
  for (const SlabView& slab_view : *slabs) {
    for (bool more = slab_view.slab->layout().seals(); more;) {
      TOPICDB_ASSIGN_OR_RETURN(more, SealOnce(*slab_view.slab, SealScope::kFresh));
    }
  }
  return Status::Ok();
}

Result<bool> Shard::SealOnce(const Slab& slab, SealScope scope) {
  Result<bool> sealed = SealStep(slab, scope);
  sealing_failed_ = !sealed.ok();
  {
    const MutexLock lock(commit_mutex_);
    sealing_status_ = sealed.status();
  }
  if (sealed.ok() && *sealed) slab.upkeep().seen = SlabUpkeep::Seen::kNothing;
  environment_->sealer->NotifyStep();
  if (sealed.ok() && *sealed) FlushSealed();
  return sealed;
}

Result<bool> Shard::SealStep(const Slab& slab, SealScope scope) {
  const auto moment = view();
  if (moment->Find(slab.id()) == nullptr) return false;  // dropped meanwhile
  RocksSource source = moment->Source(slab);
  source.log = &log_chain_;
  const auto sealing =
      slab.layout().NewSealing(source, slab.layout_state(), environment_->seal_limits);
  const std::string name = moment->Describe(slab.id());
  Result<bool> gathered = sealing->Gather(scope);
  TOPICDB_RETURN_IF_ERROR(gathered.status().WithContext(name));
  if (!*gathered) return false;
  TOPICDB_RETURN_IF_ERROR(FlushUnlogged());
  TOPICDB_RETURN_IF_ERROR(sealing->WriteData().WithContext(name));

  const MutexLock lock(commit_mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  const bool is_here = std::any_of(slabs_->begin(), slabs_->end(),
                                   [&](const SlabView& view) { return view.slab.get() == &slab; });
  if (!is_here) return false;
  rocksdb::WriteBatch batch;
  TOPICDB_RETURN_IF_ERROR(
      sealing->Install({db_.get(), nullptr, slab.families()}, &batch).WithContext(name));
  TOPICDB_RETURN_IF_ERROR(Write(rocksdb::WriteOptions(), &batch));
  sealing->Apply();
  slab.upkeep().removed_at = db_->GetLatestSequenceNumber();
  slab.upkeep().may_hold_garbage = true;
  Publish(slabs_, deletes_);
  return true;
}

// Now that fresh blocks have become sealed ones, few of them are left in memory, and those that
// were removed there need never be written to a file.
void Shard::FlushSealed() {
  // The memory of many slabs is more than that even if nothing is in it.
  const std::uint64_t enough = environment_->resources.write_buffer_bytes / 2;
  if (log_chain_.bytes() - flushed_bytes_ < enough) return;
  const std::uint64_t memory = Property("rocksdb.cur-size-all-mem-tables");
  const SlabViews slabs = view()->shared_slabs();
  std::uint64_t fresh = 0;
  for (const SlabView& slab_view : *slabs) fresh += slab_view.slab->layout_state()->fresh_bytes;
  if (memory < enough || memory < 4 * fresh) return;
  // Not waited for. What fails here fails again where it matters.
  FlushFamilies(*slabs, /*wait=*/false).IgnoreError();
}

// Several threads may be here: each returns when all that was there before it came is in files.
Status Shard::FlushUnlogged() {
  while (true) {
    SlabViews slabs;
    std::uint64_t serial = 0;
    {
      const MutexLock lock(commit_mutex_);
      if (unlogged_serial_ == 0) return Status::Ok();
      serial = unlogged_serial_;
      slabs = slabs_;
    }
    const Status status = FlushFamilies(*slabs, /*wait=*/true);
    const MutexLock lock(commit_mutex_);
    if (status.ok()) {
      if (unlogged_serial_ == serial) unlogged_serial_ = 0;
      return status;
    }
    if (slabs_ == slabs) return status;  // else one that was dropped meanwhile cannot be flushed
  }
}

}  // namespace topicdb
