#include "store/read/point_lookup.h"

#include "store/read/stream_plan.h"

namespace topicdb {

Result<std::optional<StoredMessage>> PointLookup::Find(std::string_view topic,
                                                       std::int64_t timestamp) const {
  std::optional<StoredMessage> newest;
  for (const RetentionClassId retention_class : classes) {
    TOPICDB_ASSIGN_OR_RETURN(auto found, FindIn(retention_class, topic, timestamp));
    if (!found.has_value()) continue;
    if (!newest.has_value() || found->serial > newest->serial) newest = std::move(found);
  }
  return newest;
}

Result<std::optional<StoredMessage>> PointLookup::FindIn(RetentionClassId retention_class,
                                                         std::string_view topic,
                                                         std::int64_t timestamp) const {
  std::vector<std::string_view> varying;
  for (auto view = slabs.rbegin(); view != slabs.rend(); ++view) {
    const Slab& slab = *view->slab;
    if (slab.id().retention_class != retention_class) continue;
    if (generation.has_value() && slab.id().generation != *generation) continue;
    if (slab.timestamp_bytes() == 0 && timestamp != 0) continue;
    const StreamId stream = slab.FindStream(topic, &varying);
    if (stream == kNoStream) continue;
    const PlacedMessage place{stream, topic, varying, timestamp, kNoSerial, 0, {}};
    TOPICDB_ASSIGN_OR_RETURN(auto found, slab.layout().Get({db, snapshot, slab.families()}, place,
                                                           MasksOf(deletes, slab.id())));
    if (found.has_value()) return found;
  }
  return std::optional<StoredMessage>();
}

}  // namespace topicdb
