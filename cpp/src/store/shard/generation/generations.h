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
#include "topicdb/types/times.h"

namespace topicdb {

// Makes sure that each class of the retention rules has a current generation. Begins a new one when
// a class is rotated, and when a change of the rules moves topics into a class or out of it. A
// Shard owns it. Thread-safe.
class Generations {
 public:
  Generations(ShardState& shard, ShardSealing& sealing, SlabMaker& maker)
      : shard_(shard), sealing_(sealing), maker_(maker) {}

  // Ends the current generation of one class, or of all live classes, and begins the next one. Acts
  // as if the time were `as_if`; if that is absent, the time is the present. With
  // `resets_clock`, assigned timestamps continue from what the clock shows, even if later ones were
  // assigned before. Does nothing for a class that the shard has not adopted yet: no generation of
  // it has begun that could end.
  Status Rotate(std::optional<RetentionClassId> retention_class, std::optional<WallTime> as_if,
                bool resets_clock) TOPICDB_EXCLUDES(shard_.mutex);
  // Makes these rules decide the classes of topics from now on. Begins generations of the classes
  // that are new or whose topics have changed. After an error the earlier rules stay.
  Status Adopt(std::shared_ptr<const RetentionRules> rules) TOPICDB_EXCLUDES(shard_.mutex);
  // Makes the slab of the reserved class if there is none.
  Status EnsureReserved() TOPICDB_EXCLUDES(shard_.mutex);

  // Makes the first generation of each class.
  Status CreateAll() TOPICDB_REQUIRES(shard_.mutex) { return RotateClasses(shard_.rules->ids()); }
  // Makes the current slabs of these classes begin after everything that is committed, because
  // topics have come into the classes or left them. Gives each a new generation, unless its current
  // slab has no messages. Also makes the slabs that are missing.
  Status BeginAnew(std::vector<RetentionClassId> classes) TOPICDB_REQUIRES(shard_.mutex);
  // Returns the classes of the rules that have no slab.
  std::vector<RetentionClassId> MissingClasses() const TOPICDB_REQUIRES(shard_.mutex);

 private:
  // Ends the current generations of `classes` and begins the next ones, with one write. The current
  // slabs of the classes `begin_again`, which have no messages, stay and count as begun only now.
  Status RotateClasses(std::span<const RetentionClassId> classes,
                       std::optional<WallTime> as_if = std::nullopt, bool resets_clock = false,
                       std::span<const RetentionClassId> begin_again = {})
      TOPICDB_REQUIRES(shard_.mutex);
  // Makes the current slab of `view` one of a generation that ended at `sealed_at`, in `view`
  // and in `batch`.
  Status EndGeneration(NotedTime sealed_at, SlabView* view, rocksdb::WriteBatch* batch) const
      TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
  ShardSealing& sealing_;
  SlabMaker& maker_;
};

}  // namespace topicdb
