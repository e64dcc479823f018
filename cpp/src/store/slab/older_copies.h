// Finds the slabs that may hold a message that a new one replaces. In a layout that overwrites, a
// shard has at most one message of each topic and timestamp, whatever its generation and class.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "store/catalog/retention_class.h"
#include "store/slab/slab.h"

namespace topicdb {

// Knows the slabs of each class whose layout overwrites, and the times of their messages. The
// ShardState owns it, and only the holder of the shard's commit mutex may use it. Not thread-safe.
class OlderCopies {
 public:
  // Replaces what is known of the slabs and the rules. The caller must call this when either has
  // changed, but not when current slabs have grown.
  void Reset(const std::vector<SlabView>& slabs, std::shared_ptr<const RetentionRules> rules);

  // Sets `found` to the slabs other than `current` that may hold a message with this topic and
  // timestamp. Does not look at the ended slabs of a class one by one if the timestamp is outside
  // the times of all of them.
  void Find(const Slab& current, std::string_view topic, std::int64_t timestamp,
            std::vector<const Slab*>* found) const;

 private:
  // The slabs of one class.
  struct Chain {
    // Adds a slab.
    void Take(const SlabView& view);
    // Returns whether the ended generations may hold messages with this timestamp.
    bool MayHold(std::int64_t timestamp) const { return first <= timestamp && timestamp <= last; }

    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    std::vector<std::shared_ptr<const Slab>> ended;
    std::shared_ptr<const Slab> current;
  };

  // Does the work of Find for one class: adds the slabs to `found`.
  static void FindIn(const Chain& chain, const Slab& current, std::int64_t timestamp,
                     std::vector<const Slab*>* found);

  std::map<RetentionClassId, Chain> chains_;
  std::shared_ptr<const RetentionRules> rules_;
};

}  // namespace topicdb
