// What of a database is due by its retention and its quota. Decided from numbers alone, so that it
// can be asked for any time and any sizes; DatabaseImpl::Maintain does it.
#pragma once

#include <cstdint>
#include <vector>

#include "store/retention_class.h"
#include "topicdb/database.h"

namespace topicdb {

// A class whose messages go takes so many generations for its age, or its bytes.
inline constexpr int kGenerationsOfAClass = 8;

struct MaintenanceLimits {
  std::uint64_t quota_bytes = 0;  // 0: none
  double quota_trim = 0;          // 0: never
  std::uint32_t shards = 1;       // of the database
  std::uint32_t open_shards = 1;  // that this handle looks after
};

// How long a generation of a class takes messages; 0: until it is rotated by hand.
std::int64_t RotationPeriodUs(const RetentionClass& limits);

// Whether so many bytes are more than the quota leaves, before something goes.
bool IsOverQuota(const MaintenanceLimits& all, std::uint64_t disk_bytes);

// Whether the generation that is written to has had its time or its share of the bytes. One without
// messages has not.
bool IsRotationDue(const RetentionClass& limits, const SlabUsage& current,
                   const MaintenanceLimits& all, std::int64_t now_us);

// The slabs that are to go, in that order. disk_bytes: of all, with what no slab has. Garbage does
// not count: it goes by itself, and dropping something for it would be dropping too much.
std::vector<DroppedSlab> ChooseDropped(const RetentionRules& rules, std::vector<SlabUsage> slabs,
                                       const MaintenanceLimits& all, std::uint64_t disk_bytes,
                                       std::int64_t now_us);

}  // namespace topicdb
