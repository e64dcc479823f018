#include "store/slab/older_copies.h"

#include <algorithm>

namespace topicdb {

namespace {

bool MayHold(const Slab& slab, std::int64_t timestamp) {
  const meta::SlabCounters& counters = slab.CountersForCommit();
  return counters.messages > 0 && counters.first_timestamp <= timestamp &&
         timestamp <= counters.last_timestamp;
}

}  // namespace

void OlderCopies::Chain::Take(const SlabView& view) {
  if (!view.read_only) {
    current = view.slab;
    return;
  }
  const meta::SlabCounters& counters = view.slab->CountersForCommit();
  if (counters.messages == 0) return;
  first = std::min(first, counters.first_timestamp);
  last = std::max(last, counters.last_timestamp);
  ended.push_back(view.slab);
}

void OlderCopies::Reset(const std::vector<SlabView>& slabs,
                        std::shared_ptr<const RetentionRules> rules) {
  chains_.clear();
  rules_ = std::move(rules);
  for (const SlabView& view : slabs) {
    if (view.slab->layout().overwrites()) chains_[view.slab->id().retention_class].Take(view);
  }
}

void OlderCopies::Find(const Slab& current, std::string_view topic, std::int64_t timestamp,
                       std::vector<const Slab*>* found) const {
  found->clear();
  const RetentionClassId own_class = current.id().retention_class;
  const auto own = chains_.find(own_class);
  if (own != chains_.end()) FindIn(own->second, current, timestamp, found);
  if (rules_->version() == 0 || chains_.size() == 1) return;  // topics have been of one class
  for (const RetentionClassId other : rules_->ClassesWith(topic)) {
    const auto chain = chains_.find(other);
    if (other == own_class || chain == chains_.end()) continue;
    FindIn(chain->second, current, timestamp, found);
  }
}

void OlderCopies::FindIn(const Chain& chain, const Slab& current, std::int64_t timestamp,
                         std::vector<const Slab*>* found) {
  if (chain.current != nullptr && chain.current.get() != &current &&
      MayHold(*chain.current, timestamp)) {
    found->push_back(chain.current.get());
  }
  if (!chain.MayHold(timestamp)) return;
  for (const auto& slab : chain.ended) {
    if (MayHold(*slab, timestamp)) found->push_back(slab.get());
  }
}

}  // namespace topicdb
