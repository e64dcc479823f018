#include "store/point_lookup.h"

#include <algorithm>

namespace topicdb {

bool IsHidden(const std::vector<meta::DeleteRecord>& deletes, const SlabId& slab,
              std::string_view topic, std::int64_t timestamp, std::uint64_t serial) {
  return std::any_of(deletes.begin(), deletes.end(), [&](const meta::DeleteRecord& record) {
    return serial <= record.serial && Contains(record.keys.range, timestamp) &&
           record.Covers(slab) && record.keys.filter.Matches(topic);
  });
}

Result<std::optional<StoredMessage>> PointLookup::Find(std::string_view topic,
                                                       std::int64_t timestamp) const {
  std::vector<std::string_view> varying;
  for (auto view = slabs.rbegin(); view != slabs.rend(); ++view) {
    const Slab& slab = *view->slab;
    if (slab.id().retention_class != retention_class) continue;
    if (generation.has_value() && slab.id().generation != *generation) continue;
    if (slab.timestamp_bytes() == 0 && timestamp != 0) continue;
    const NodeId stream = slab.FindStream(topic, &varying);
    if (stream == kNoNode) continue;
    const PlacedMessage place{stream, varying, timestamp, 0, 0, {}};
    TOPICDB_ASSIGN_OR_RETURN(auto found, slab.layout().Get({db, snapshot, slab.family()}, place));
    if (found.has_value() && !IsHidden(deletes, slab.id(), topic, timestamp, found->serial)) {
      return found;
    }
  }
  return std::optional<StoredMessage>();
}

}  // namespace topicdb
