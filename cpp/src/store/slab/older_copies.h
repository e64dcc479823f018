// Where messages may be that a new one replaces: in layouts of which the same topic and timestamp
// overwrite, there is one message of each, whatever generation or class of its shard it is in.
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

// Slabs that a class had before the one that is written to, with what is known of them as long as
// they are the same. Not thread-safe.
class OlderCopies {
 public:
  // To be called when the slabs, or the rules, are others. Current ones may grow meanwhile.
  void Reset(const std::vector<SlabView>& slabs, std::shared_ptr<const RetentionRules> rules);

  // Slabs, but `current`, that may hold a message of this key. Those that a message without older
  // times cannot be in cost nothing.
  void Find(const Slab& current, std::string_view topic, std::int64_t timestamp,
            std::vector<const Slab*>* found) const;

 private:
  struct Chain {
    void Take(const SlabView& view);
    // Whether ended generations may hold messages of that time.
    bool MayHold(std::int64_t timestamp) const { return first <= timestamp && timestamp <= last; }

    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    std::vector<std::shared_ptr<const Slab>> ended;
    std::shared_ptr<const Slab> current;
  };

  static void FindIn(const Chain& chain, const Slab& current, std::int64_t timestamp,
                     std::vector<const Slab*>* found);

  std::map<std::uint32_t, Chain> chains_;  // by class
  std::shared_ptr<const RetentionRules> rules_;
};

}  // namespace topicdb
