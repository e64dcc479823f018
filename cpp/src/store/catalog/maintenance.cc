#include "store/catalog/maintenance.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/leap_clock.h"

namespace topicdb {

namespace {

using std::chrono::microseconds;

std::uint64_t Part(std::uint64_t whole, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(whole) * share);
}

// Returns the part of a limit of bytes that the open shards may take.
std::uint64_t OfOpenShards(std::uint64_t bytes, const MaintenanceLimits& all) {
  return Part(bytes, static_cast<double>(all.open_shards) / all.shards);
}

bool IsTooOld(const RetentionClass& limits, const SlabInfo& slab, WallTime now) {
  return limits.age > microseconds(0) && now - *slab.sealed_at >= limits.age;
}

std::uint64_t BytesOf(const SlabUsage& usage) {
  return usage.disk_bytes - std::min(usage.disk_bytes, usage.garbage_bytes);
}

// Makes sure that no generation counts as ended later than those that follow it. Where the clocks
// say something else, the order of generations counts.
void BoundByFollowing(std::vector<SlabUsage>* slabs) {
  std::sort(slabs->begin(), slabs->end(),
            [](const SlabUsage& a, const SlabUsage& b) { return a.slab.id < b.slab.id; });
  const SlabInfo* next = nullptr;
  for (auto usage = slabs->rbegin(); usage != slabs->rend(); ++usage) {
    SlabInfo& slab = usage->slab;
    if (!slab.sealed_at.has_value()) continue;
    const bool follows = next != nullptr && next->id.shard == slab.id.shard &&
                         next->id.retention_class == slab.id.retention_class;
    if (follows) slab.sealed_at = std::min(*slab.sealed_at, *next->sealed_at);
    next = &slab;
  }
}

// Takes slabs out of a list, and counts the bytes of the slabs that are left.
class Chooser {
 public:
  Chooser(std::vector<SlabUsage> slabs, std::uint64_t disk_bytes)
      : slabs_(std::move(slabs)), disk_bytes_(disk_bytes) {
    for (const SlabUsage& slab : slabs_) {
      class_bytes_[slab.slab.id.retention_class] += BytesOf(slab);
      disk_bytes_ -= std::min(disk_bytes_, slab.garbage_bytes);
    }
    std::erase_if(slabs_, [](const SlabUsage& usage) { return !usage.slab.sealed_at; });
    std::sort(slabs_.begin(), slabs_.end(), [](const SlabUsage& a, const SlabUsage& b) {
      return std::pair(*a.slab.sealed_at, a.slab.id) < std::pair(*b.slab.sealed_at, b.slab.id);
    });
  }

  // Takes each slab for which is_due(slab) returns true. Asks about the oldest first.
  template <typename IsDue>
  void Take(SlabDropReason reason, IsDue is_due) {
    std::erase_if(slabs_, [&](const SlabUsage& usage) {
      if (!is_due(usage)) return false;
      class_bytes_[usage.slab.id.retention_class] -= BytesOf(usage);
      disk_bytes_ -= std::min(disk_bytes_, BytesOf(usage));
      dropped_.push_back({usage, reason});
      return true;
    });
  }

  std::uint64_t class_bytes(RetentionClassId retention_class) {
    return class_bytes_[retention_class];
  }
  std::uint64_t disk_bytes() const { return disk_bytes_; }
  std::vector<DroppedSlab> Finish() { return std::move(dropped_); }

 private:
  std::vector<SlabUsage> slabs_;  // read-only ones, by the time at which they were sealed
  std::map<RetentionClassId, std::uint64_t> class_bytes_;
  std::uint64_t disk_bytes_;
  std::vector<DroppedSlab> dropped_;
};

// Marks the slabs whose generations a run of maintenance would end first, and returns how many.
std::uint64_t MarkRotated(const RetentionRules& rules, const MaintenanceLimits& all, WallTime now,
                          std::vector<SlabUsage>* slabs) {
  std::uint64_t rotated = 0;
  for (SlabUsage& usage : *slabs) {
    const RetentionRule* const rule = rules.Find(usage.slab.id.retention_class);
    if (usage.slab.read_only || rule == nullptr) continue;
    if (!IsRotationDue(rule->limits, usage, all, now)) continue;
    usage.slab.read_only = true;
    usage.slab.sealed_at = now;
    ++rotated;
  }
  return rotated;
}

}  // namespace

microseconds RotationPeriod(const RetentionClass& limits) {
  if (limits.rotation_period > microseconds(0)) return limits.rotation_period;
  if (HasOnlyKeepLast(limits)) return kKeepLastRotationPeriod;
  if (limits.age == microseconds(0)) return microseconds(0);
  return std::max(limits.age / kGenerationsOfAClass, microseconds(1));
}

// The quota belongs to the handle, so it is not divided among the shards that are open.
bool IsOverQuota(const MaintenanceLimits& all, std::uint64_t disk_bytes) {
  return all.quota_bytes > 0 && all.quota_trim > 0 &&
         disk_bytes > Part(all.quota_bytes, all.quota_trim);
}

bool IsRotationDue(const RetentionClass& limits, const SlabUsage& current,
                   const MaintenanceLimits& all, WallTime now) {
  if (current.slab.messages == 0) return false;
  const microseconds period = RotationPeriod(limits);
  if (period > microseconds(0) && now - current.slab.created_at >= period) return true;
  const auto has_share_of = [&](std::uint64_t bytes) {
    return bytes > 0 && BytesOf(current) >= bytes / all.shards / kGenerationsOfAClass;
  };
  return has_share_of(limits.bytes_max) ||
         (all.quota_trim > 0 && has_share_of(Part(all.quota_bytes, all.quota_trim)));
}

bool HasImpossibleBegin(const SlabUsage& current, WallTime now) {
  return current.slab.created_at > now + LeapClock::kTolerance;
}

std::vector<DroppedSlab> ChooseDropped(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                                       const MaintenanceLimits& all, std::uint64_t disk_bytes,
                                       WallTime now) {
  std::erase_if(slabs, [&](const SlabUsage& usage) {
    return rules.Find(usage.slab.id.retention_class) == nullptr;  // maps are kept
  });
  const auto limits_of = [&](const SlabUsage& usage) -> const RetentionClass& {
    return rules.Find(usage.slab.id.retention_class)->limits;
  };
  const auto is_kept = [&](const SlabUsage& usage) {
    return usage.slab.keep_last > 0 && limits_of(usage).keep_last > 0;
  };
  BoundByFollowing(&slabs);
  Chooser chooser(std::move(slabs), disk_bytes);
  chooser.Take(SlabDropReason::kAge, [&](const SlabUsage& usage) {
    return all.may_age && !is_kept(usage) && IsTooOld(limits_of(usage), usage.slab, now);
  });
  chooser.Take(SlabDropReason::kKeepLast, [&](const SlabUsage& usage) {
    return !is_kept(usage) && HasOnlyKeepLast(limits_of(usage));
  });
  chooser.Take(SlabDropReason::kBytes, [&](const SlabUsage& usage) {
    const std::uint64_t bytes_max = limits_of(usage).bytes_max;
    return !is_kept(usage) && bytes_max > 0 &&
           chooser.class_bytes(usage.slab.id.retention_class) > OfOpenShards(bytes_max, all);
  });
  for (const bool kept_too : {false, true}) {
    chooser.Take(SlabDropReason::kQuota, [&](const SlabUsage& usage) {
      return (kept_too || !is_kept(usage)) && IsOverQuota(all, chooser.disk_bytes());
    });
  }
  return chooser.Finish();
}

Maintenance Foresee(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                    MaintenanceLimits all, WallTime now) {
  all.quota_bytes = 0;
  Maintenance foreseen;
  foreseen.rotated = MarkRotated(rules, all, now, &slabs);
  foreseen.dropped = ChooseDropped(rules, slabs, all, /*disk_bytes=*/0, now);
  PlanMerges(rules, slabs, &foreseen.dropped);
  return foreseen;
}

std::vector<DroppedSlab> ForeseeQuota(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                                      const MaintenanceLimits& all, std::uint64_t disk_bytes,
                                      WallTime now) {
  MarkRotated(rules, all, now, &slabs);
  std::vector<DroppedSlab> dropped = ChooseDropped(rules, slabs, all, disk_bytes, now);
  PlanMerges(rules, slabs, &dropped);
  std::erase_if(dropped,
                [](const DroppedSlab& slab) { return slab.reason != SlabDropReason::kQuota; });
  return dropped;
}

std::vector<KeepLastMerge> PlanMerges(const RetentionRules& rules,
                                      const std::vector<SlabUsage>& slabs,
                                      std::vector<DroppedSlab>* dropped) {
  std::set<SlabId> due;
  for (const DroppedSlab& item : *dropped) {
    const SlabInfo& slab = item.usage.slab;
    const RetentionRule* rule = rules.Find(slab.id.retention_class);
    if (slab.keep_last == 0 && rule->limits.keep_last > 0) due.insert(slab.id);
  }
  // By shard and class.
  std::map<std::pair<std::uint32_t, RetentionClassId>, std::map<SlabId, const SlabInfo*>> chains;
  for (const SlabUsage& usage : slabs) {
    const SlabId& id = usage.slab.id;
    chains[{id.shard, id.retention_class}][id] = &usage.slab;
  }
  std::vector<KeepLastMerge> merges;
  std::set<SlabId> merged;
  for (const auto& [of, chain] : chains) {
    KeepLastMerge merge;
    std::vector<SlabId> from;
    for (const auto& [id, slab] : chain) {
      const bool is_kept = from.empty() && slab->keep_last > 0;
      if (!is_kept && !due.contains(id)) break;
      from.push_back(id);
      SlabId next = id;
      ++next.generation;
      if (is_kept || chain.contains(next)) continue;
      merge.from = from;
      merge.to = next;
    }
    if (merge.from.empty()) continue;
    merge.keep_last = rules.Find(of.second)->limits.keep_last;
    merged.insert(merge.from.begin(), merge.from.end());
    merges.push_back(std::move(merge));
  }
  std::erase_if(*dropped, [&](const DroppedSlab& item) {
    const SlabInfo& slab = item.usage.slab;
    return due.contains(slab.id) ? !merged.contains(slab.id)
                                 : slab.keep_last > 0 && merged.contains(slab.id);
  });
  return merges;
}

}  // namespace topicdb
