// What of a database is due by its retention and its quota. Decided from numbers alone, so that it
// can be asked for any time and any sizes; DatabaseImpl::Maintain does it.
#pragma once

#include <cstdint>
#include <vector>

#include "store/catalog/retention_class.h"
#include "topicdb/types/maintenance.h"

namespace topicdb {

// A class of which only the last messages are kept starts a generation so often.
inline constexpr std::int64_t kKeepLastRotateUs = std::int64_t{86'400} * 1'000'000;

// A class whose messages go takes so many generations for its age, or its bytes.
inline constexpr int kGenerationsOfAClass = 8;

struct MaintenanceLimits {
  std::uint64_t quota_bytes = 0;  // 0: none
  double quota_trim = 0;          // 0: never
  std::uint32_t shards = 1;       // of the database
  std::uint32_t open_shards = 1;  // that this handle looks after
  bool may_age = true;            // false: it is too early to tell what is old
};

// How long a generation of a class takes messages; 0: until it is rotated by hand.
std::int64_t RotationPeriodUs(const RetentionClass& limits);

// Whether so many bytes are more than the quota leaves, before something goes.
bool IsOverQuota(const MaintenanceLimits& all, std::uint64_t disk_bytes);

// Whether the generation that is written to has had its time or its share of the bytes. One without
// messages has not.
bool IsRotationDue(const RetentionClass& limits, const SlabUsage& current,
                   const MaintenanceLimits& all, std::int64_t now_us);

// Whether the generation that is written to was begun at a time that has yet to come. Its own
// clock, or that of whoever tried out another time, was wrong: it ends, so that what follows tells
// better.
bool HasImpossibleBegin(const SlabUsage& current, std::int64_t now_us);

// Slabs of one class in one shard of which the last messages are kept, and the slab that they go
// to.
struct KeepLastMerge {
  std::vector<SlabId> from;  // in order; the first may be one that was made so
  SlabId to;
  std::uint32_t keep_last = 0;

  bool operator==(const KeepLastMerge&) const = default;
};

// What becomes of those that are to go and are of a class with keep_last: they are merged, with
// what was kept before. `slabs`: all of them. A slab needs a number between those that it is made
// of and those that follow; where there is none, the last ones wait for the next and are taken out
// of `dropped`.
std::vector<KeepLastMerge> PlanMerges(const RetentionRules& rules,
                                      const std::vector<SlabUsage>& slabs,
                                      std::vector<DroppedSlab>* dropped);

// The slabs that are to go, in that order. A generation ended before those that follow it did,
// whatever its own clock said. disk_bytes: of all, with what no slab has. Garbage does
// not count: it goes by itself, and dropping something for it would be dropping too much.
std::vector<DroppedSlab> ChooseDropped(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                                       const MaintenanceLimits& all, std::uint64_t disk_bytes,
                                       std::int64_t now_us);

// What a run of maintenance would rotate and drop by these rules, as the files are now; the quota
// is not asked. Nobody knows before how many messages a keep_last would save.
Maintenance Foresee(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                    MaintenanceLimits all, std::int64_t now_us);

}  // namespace topicdb
