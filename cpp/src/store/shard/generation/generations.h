// Begins and ends the generations of a shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "store/shard/commit/transaction_check.h"
#include "store/shard/generation/slab_maker.h"
#include "store/shard/state/shard_state.h"
#include "store/shard/upkeep/shard_sealing.h"
#include "topicdb/types/times.h"

namespace topicdb {

// Makes sure that each class of the retention rules has a current generation. Begins a new one when
// a class is rotated, and when a change of the rules moves topics into a class or out of it, or
// names another layout for it. A Shard owns it. Thread-safe.
class Generations {
 public:
  Generations(ShardState& shard, ShardSealing& sealing, TransactionCheck& transactions,
              SlabMaker& maker)
      : shard_(shard), sealing_(sealing), transactions_(transactions), maker_(maker) {}

  // Ends the current generation of one class, or of all live classes, and begins the next one. Acts
  // as if the time were `as_if`; if that is absent, the time is the present. With
  // `resets_clock`, assigned timestamps continue from what the clock shows, even if later ones were
  // assigned before. The new generations have this layout; if it is absent, that of
  // ShardEnvironment::LayoutOfNew. Does nothing for a class that the shard has not adopted yet: no
  // generation of it has begun that could end.
  Status Rotate(std::optional<RetentionClassId> retention_class, std::optional<WallTime> as_if,
                bool resets_clock, std::optional<LayoutKind> layout = std::nullopt)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Makes these rules decide the classes of topics from now on. Begins generations of the classes
  // that are new, whose topics have changed, or whose current generation has another layout than
  // the rules name. Does nothing if the shard follows these rules or later ones. After an error the
  // earlier rules stay.
  Status Adopt(std::shared_ptr<const RetentionRules> rules) TOPICDB_EXCLUDES(shard_.mutex);
  // Makes the slab of the reserved class if there is none.
  Status EnsureReserved() TOPICDB_EXCLUDES(shard_.mutex);

  // Makes the first generation of each class.
  Status CreateAll() TOPICDB_REQUIRES(shard_.mutex) {
    return RotateClasses(shard_.rules->ids(), {});
  }
  // Makes the current slabs of these classes begin after everything that is committed, because
  // topics have come into the classes or left them. Gives each a new generation, unless its current
  // slab has no messages and the layout that it should have. Also makes the slabs that are missing.
  Status BeginAnew(std::vector<RetentionClassId> classes) TOPICDB_REQUIRES(shard_.mutex);
  // Returns the classes of the rules that have no slab.
  std::vector<RetentionClassId> MissingClasses() const TOPICDB_REQUIRES(shard_.mutex);

 private:
  // How to rotate; see Rotate.
  struct Rotation {
    std::optional<WallTime> as_if = std::nullopt;
    bool resets_clock = false;
    std::optional<LayoutKind> layout = std::nullopt;
    // The current slabs of these classes, which have no messages, stay and count as begun only now.
    std::vector<RetentionClassId> begin_again = {};
  };
  // A generation that begins, and the slab that ends for it; null for the first generation of a
  // class.
  struct Next {
    NewSlab slab;
    NotedTime began;
    const Slab* before = nullptr;

    bool changes_layout() const {
      return before != nullptr && before->layout_kind() != slab.layout;
    }
  };

  // Ends the current generations of `classes` and begins the next ones, with one write. If one has
  // another layout than the one before it, this is a commit, which transactions that are open
  // conflict with: what their writes replace depends on the layout.
  Status RotateClasses(std::span<const RetentionClassId> classes, const Rotation& rotation)
      TOPICDB_REQUIRES(shard_.mutex);
  // Ends the current slabs of `classes`, in `slabs` and in `batch`. Returns the generations that
  // begin.
  Result<std::vector<Next>> EndCurrent(std::span<const RetentionClassId> classes,
                                       const Rotation& rotation, std::vector<SlabView>* slabs,
                                       rocksdb::WriteBatch* batch) const
      TOPICDB_REQUIRES(shard_.mutex);
  // Notes in `batch` which rules the shard follows. A shard that has replicas notes the rules as a
  // whole, so that all replicas take them at the same entry of their log.
  Status PutRules(rocksdb::WriteBatch* batch) const TOPICDB_REQUIRES(shard_.mutex);
  // Makes the slabs of the generations that begin, and adds them to `slabs` and to `batch`.
  Status MakeNext(const std::vector<Next>& next, Serial begun_at, std::vector<SlabView>* slabs,
                  rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(shard_.mutex);
  // Returns whether the current slab of a class has the layout that the rules name.
  bool HasItsLayout(const Slab& current) const TOPICDB_REQUIRES(shard_.mutex) {
    const LayoutKind layout = current.layout_kind();
    return shard_.environment->LayoutOfNew(current.id(), layout) == layout;
  }
  // Makes the current slab of `view` one of a generation that ended at `sealed_at`, in `view`
  // and in `batch`.
  Status EndGeneration(NotedTime sealed_at, SlabView* view, rocksdb::WriteBatch* batch) const
      TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
  ShardSealing& sealing_;
  TransactionCheck& transactions_;
  SlabMaker& maker_;
};

}  // namespace topicdb
