// Begins and ends the generations of a shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "store/shard/generation/slab_maker.h"
#include "store/shard/state/shard_state.h"
#include "store/shard/upkeep/shard_sealing.h"

namespace topicdb {

// Sees to it that each class of the retention rules has a current generation, and gives it a new
// one when it is rotated or when topics come into it or leave it. A Shard owns it. Thread-safe.
class Generations {
 public:
  Generations(ShardState& shard, ShardSealing& sealing, SlabMaker& maker)
      : shard_(shard), sealing_(sealing), maker_(maker) {}

  // Ends the current generation of one class, or of all that users see, and begins the next one.
  // as_if_us: the time that it counts as done at; absent: now. With `resets_clock`, timestamps that
  // are assigned go on from the time of the clock, even if later ones were assigned before.
  Status Rotate(std::optional<RetentionClassId> retention_class,
                std::optional<std::int64_t> as_if_us, bool resets_clock)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Has topics belong to the classes of these rules from now on. New classes get a slab.
  Status Adopt(std::shared_ptr<const RetentionRules> rules) TOPICDB_EXCLUDES(shard_.mutex);
  // Makes the slab of the reserved class if there is none.
  Status EnsureReserved() TOPICDB_EXCLUDES(shard_.mutex);

  // Makes the first generation of each class.
  Status CreateAll() TOPICDB_REQUIRES(shard_.mutex) { return RotateClasses(shard_.rules->ids()); }
  // Has the current slabs of these classes, and of those that have none, begin behind all that is
  // committed: topics have come into them or left.
  Status BeginAnew(std::vector<RetentionClassId> classes) TOPICDB_REQUIRES(shard_.mutex);
  // Returns the classes of the rules that have no slab at all.
  std::vector<RetentionClassId> MissingClasses() const TOPICDB_REQUIRES(shard_.mutex);

 private:
  // begin_again: classes whose current slabs have no messages, and count as begun only now.
  Status RotateClasses(std::span<const RetentionClassId> classes,
                       std::optional<std::int64_t> as_if_us = std::nullopt,
                       bool resets_clock = false,
                       std::span<const RetentionClassId> begin_again = {})
      TOPICDB_REQUIRES(shard_.mutex);
  // Makes the current slab of `view` one of a generation that ended at `sealed_at_us`, in `view`
  // and in `batch`.
  Status EndGeneration(std::int64_t sealed_at_us, SlabView* view, rocksdb::WriteBatch* batch) const
      TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
  ShardSealing& sealing_;
  SlabMaker& maker_;
};

}  // namespace topicdb
