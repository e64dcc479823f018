#include "store/shard/upkeep/garbage_collector.h"

#include <algorithm>

#include "rocks/garbage.h"
#include "rocks/rocks_compat.h"

namespace topicdb {

namespace {

// With less than this in a family it is not worth the work.
constexpr std::uint64_t kGarbageBytesMin = std::uint64_t{1} << 20;
// Nor with less in a read-only slab, where it is removed once and for all.
constexpr std::uint64_t kSettledGarbageBytesMin = std::uint64_t{64} << 10;
// And not if it is a smaller part of the family: 1 / so many.
constexpr std::uint64_t kSettledGarbagePart = 8;
// What closing writes anew at most of one family.
constexpr std::uint64_t kQuickBytesMax = std::uint64_t{64} << 20;

// Of what fresh blocks take beside their messages, and small records: enough for any.
constexpr std::uint64_t kFreshFactor = 2;
constexpr std::uint64_t kRecordBytes = std::uint64_t{64} << 10;

std::uint64_t Minus(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

// Fresh blocks are few keys with nearly all of the bytes: not what keys take on average tells, but
// what is there beyond the messages that are fresh now.
std::uint64_t GarbageOfMain(const rocks::FamilyGarbage& found, std::uint64_t fresh_bytes) {
  if (found.removed == 0) return 0;
  return Minus(found.file_bytes, kFreshFactor * fresh_bytes + kRecordBytes);
}

// Most of what a read-only slab has removed should go, and then nothing of it is looked at again.
bool IsWorthRemoving(const rocks::FamilyGarbage& found, std::uint64_t bytes_min) {
  return found.file_bytes >= bytes_min && kSettledGarbagePart * found.removed >= found.written &&
         found.removed > 0;
}

}  // namespace

void GarbageCollector::Measure(const Slab& slab, SlabUsage* usage) const {
  const SlabFamilies families = slab.families();
  const std::uint64_t main = disk_.OfFamily(families.main);
  const std::uint64_t pages = families.sealed == nullptr ? 0 : disk_.OfFamily(families.sealed);
  usage->disk_bytes = main + pages;
  if (slab.log() == nullptr || !slab.upkeep().may_hold_garbage) return;
  const std::uint64_t fresh = kFreshFactor * slab.layout_state()->fresh_bytes + kRecordBytes;
  const auto found = rocks::MeasureGarbage(shard_.db.get(), families.main);
  if (found.removed > 0) usage->garbage_bytes = Minus(main, fresh);
  if (families.sealed == nullptr) return;
  usage->garbage_bytes +=
      std::min(pages, rocks::MeasureGarbage(shard_.db.get(), families.sealed).bytes());
}

bool GarbageCollector::IsDue(const SlabView& view, GarbageScope scope) const {
  const Slab& slab = *view.slab;
  SlabUpkeep& upkeep = slab.upkeep();
  if (slab.log() == nullptr || !upkeep.may_hold_garbage.exchange(false)) return false;
  const auto main = rocks::MeasureGarbage(shard_.db.get(), slab.families().main);
  const auto pages = rocks::MeasureGarbage(shard_.db.get(), slab.families().sealed);
  if (main.removed == 0 && pages.removed == 0) return false;
  upkeep.may_hold_garbage = true;
  if (scope == GarbageScope::kQuick && main.file_bytes + pages.file_bytes > kQuickBytesMax) {
    return false;
  }
  if (view.read_only) {
    return IsWorthRemoving(main, kSettledGarbageBytesMin) ||
           (pages.bytes() >= kSettledGarbageBytesMin &&
            IsWorthRemoving(pages, kSettledGarbageBytesMin));
  }
  if (pages.bytes() >= std::max(kGarbageBytesMin, pages.file_bytes / 2)) return true;
  return scope != GarbageScope::kSettled &&
         GarbageOfMain(main, slab.layout_state()->fresh_bytes) >= kGarbageBytesMin;
}

Status GarbageCollector::Collect(GarbageScope scope, std::atomic<bool>* canceled) {
  if (shard_.environment->read_only) return Status::Ok();
  const SlabViews slabs = shard_.view()->shared_slabs();
  for (const SlabView& slab_view : *slabs) {
    if (canceled != nullptr && *canceled) return Status::Ok();
    if (!IsDue(slab_view, scope)) continue;
    // Files that a reader still needs would only be written anew, with all that is in them.
    if (rocks::OldestSnapshot(shard_.db.get()) < slab_view.slab->upkeep().removed_at) continue;
    TOPICDB_RETURN_IF_ERROR(CollectOf(*slab_view.slab, canceled));
  }
  return Status::Ok();
}

Status GarbageCollector::CollectOf(const Slab& slab, std::atomic<bool>* canceled) {
  TOPICDB_RETURN_IF_ERROR(shard_.FlushUnlogged());
  rocksdb::FlushOptions flush;
  flush.allow_write_stall = true;
  const auto families = slab.all_families();
  const rocksdb::Status flushed = shard_.db->Flush(flush, families);
  if (flushed.IsColumnFamilyDropped()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(flushed, "flushing " + shard_.Name()));
  for (rocksdb::ColumnFamilyHandle* const family : families) {
    if (rocks::MeasureGarbage(shard_.db.get(), family).removed == 0) continue;
    TOPICDB_RETURN_IF_ERROR(
        rocks::RemoveGarbage(shard_.db.get(), family, canceled).WithContext(shard_.Name()));
  }
  disk_.Expire();
  return Status::Ok();
}

}  // namespace topicdb
