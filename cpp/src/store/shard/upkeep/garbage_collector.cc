#include "store/shard/upkeep/garbage_collector.h"

#include <algorithm>

#include "rocks/garbage.h"
#include "rocks/rocks_compat.h"

namespace topicdb {

namespace {

// Less garbage than this in a family is not worth the work.
constexpr std::uint64_t kGarbageBytesMin = std::uint64_t{1} << 20;
// In a read-only slab less is worth it, because its garbage is removed once and for all.
constexpr std::uint64_t kSettledGarbageBytesMin = std::uint64_t{64} << 10;
// Garbage of a read-only slab must be at least 1 / kSettledGarbagePart of the family.
constexpr std::uint64_t kSettledGarbagePart = 8;
// Closing writes slabs anew that have at most this many bytes of files.
constexpr std::uint64_t kQuickBytesMax = std::uint64_t{64} << 20;

// Upper bounds of what fresh blocks take in files, as a multiple of their messages, and of what
// small records take.
constexpr std::uint64_t kFreshFactor = 2;
constexpr std::uint64_t kRecordBytes = std::uint64_t{64} << 10;

std::uint64_t Minus(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

// Returns the bytes of garbage in the main family. Few keys, the fresh blocks, have nearly all of
// the bytes, so the average size of a key says nothing. Everything beyond the messages that are
// fresh now counts as garbage.
std::uint64_t GarbageOfMain(const rocks::FamilyGarbage& found, std::uint64_t fresh_bytes) {
  if (found.removed == 0) return 0;
  return Minus(found.file_bytes, kFreshFactor * fresh_bytes + kRecordBytes);
}

// Returns whether the garbage of a family of a read-only slab is worth removing. Once it is
// removed, nobody looks at the slab again.
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
    // While a reader still needs the removed messages, RocksDB would write the files anew with all
    // of them.
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
  const rocksdb::Status flushed = shard_.db->Flush(flush, shard_.log()->FlushedWith(families));
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
