// Finds the slabs that may hold a message that a new one replaces. In a layout that overwrites, a
// shard has one message of each topic and timestamp, whatever generation or class it is in.
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

// Knows the slabs of each class and the times of their messages, as long as the slabs stay the
// same. A shard owns it, and only the holder of the shard's commit mutex may use it. Not
// thread-safe.
class OlderCopies {
 public:
  // The caller must call this when the slabs or the rules have changed. It need not when current
  // slabs have grown.
  void Reset(const std::vector<SlabView>& slabs, std::shared_ptr<const RetentionRules> rules);

  // Sets `found` to the slabs that may hold a message of this key, except `current`. If a message
  // is newer than all ended slabs of a class, these cost nothing.
  void Find(const Slab& current, std::string_view topic, std::int64_t timestamp,
            std::vector<const Slab*>* found) const;

 private:
  struct Chain {
    void Take(const SlabView& view);
    // Whether the ended generations may hold messages with this timestamp.
    bool MayHold(std::int64_t timestamp) const { return first <= timestamp && timestamp <= last; }

    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    std::vector<std::shared_ptr<const Slab>> ended;
    std::shared_ptr<const Slab> current;
  };

  static void FindIn(const Chain& chain, const Slab& current, std::int64_t timestamp,
                     std::vector<const Slab*>* found);

  std::map<RetentionClassId, Chain> chains_;
  std::shared_ptr<const RetentionRules> rules_;
};

}  // namespace topicdb
