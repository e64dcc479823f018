// Decides what maintenance must rotate, merge and drop in a database, by its retention and its
// quota. These functions use numbers alone, so that callers can ask about any time and any sizes.
// DatabaseUpkeep does what they decide. Thread-safe, since they have no state.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "store/catalog/retention_class.h"
#include "topicdb/types/maintenance.h"
#include "topicdb/types/times.h"

namespace topicdb {

// A class that keeps only the last messages begins a generation this often.
inline constexpr std::chrono::microseconds kKeepLastRotationPeriod = std::chrono::days(1);

// A class that drops messages by age or by bytes divides these into this many generations.
inline constexpr int kGenerationsOfAClass = 8;

// The limits of a database and of this handle, beside those of classes.
struct MaintenanceLimits {
  std::uint64_t quota_bytes = 0;  // 0: there is no quota
  double quota_trim = 0;          // part of the quota; 0: nothing is dropped for the quota
  std::uint32_t shards = 1;       // of the database
  std::uint32_t open_shards = 1;  // that this handle maintains
  bool may_age = true;            // false: it is too early to tell what is old
};

// Returns how long a generation of a class takes messages. Returns 0 if it takes messages until
// somebody rotates it.
std::chrono::microseconds RotationPeriod(const RetentionClass& limits);

// Returns whether `disk_bytes` exceed the part of the quota beyond which slabs are dropped.
bool IsOverQuota(const MaintenanceLimits& all, std::uint64_t disk_bytes);

// Returns whether the current generation has had its time, or has its share of the bytes of its
// class or of the quota. Returns false if it has no messages.
bool IsRotationDue(const RetentionClass& limits, const SlabUsage& current,
                   const MaintenanceLimits& all, WallTime now);

// Returns whether the current generation began at a time that is still in the future. The clock was
// wrong when it began, or somebody tried out another time. Maintenance ends such a generation, so
// that the next one begins at a better time.
bool HasImpossibleBegin(const SlabUsage& current, WallTime now);

// Slabs of one class in one shard whose last messages are kept, and the slab that takes these
// messages.
struct KeepLastMerge {
  std::vector<SlabId> from;  // in order; the first may be the result of an earlier merge
  SlabId to;
  std::uint32_t keep_last = 0;

  bool operator==(const KeepLastMerge&) const = default;
};

// Plans the merges for those slabs in `dropped` whose class has keep_last. A merge also takes what
// earlier merges have kept. `slabs` must be all slabs. The new slab needs a generation number
// between those that it is made of and those that follow. Where there is none, the last slabs wait
// for the next run, and this function removes them from `dropped`.
std::vector<KeepLastMerge> PlanMerges(const RetentionRules& rules,
                                      const std::vector<SlabUsage>& slabs,
                                      std::vector<DroppedSlab>* dropped);

// Returns the slabs to drop, in the order in which to drop them. A generation counts as ended
// before those that follow it, whatever its own clock said. `disk_bytes` are the bytes of all slabs
// and of what belongs to no slab. Garbage does not count: maintenance frees it anyway, so dropping
// slabs for it would drop too much.
std::vector<DroppedSlab> ChooseDropped(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                                       const MaintenanceLimits& all, std::uint64_t disk_bytes,
                                       WallTime now);

// Returns what a run of maintenance would rotate and drop by these rules, as the files are now.
// Ignores the quota. The `kept` of the result is 0, because nobody knows before the run how many
// messages keep_last keeps.
Maintenance Foresee(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                    MaintenanceLimits all, WallTime now);
// Returns the slabs that a run of maintenance would drop for the quota, as the files are now,
// unless removing garbage is enough. `disk_bytes` are as for ChooseDropped.
std::vector<DroppedSlab> ForeseeQuota(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                                      const MaintenanceLimits& all, std::uint64_t disk_bytes,
                                      WallTime now);

}  // namespace topicdb
