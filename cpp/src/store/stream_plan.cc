#include "store/stream_plan.h"

#include <set>

namespace topicdb {

std::vector<StreamTarget> PlanStreams(const std::vector<ShardMoment>& moments, const Filter& filter,
                                      const TimeRange& range,
                                      const std::optional<std::vector<Stream>>& wanted) {
  std::set<std::pair<SlabId, std::uint32_t>> chosen;
  if (wanted.has_value()) {
    for (const Stream& stream : *wanted) chosen.emplace(stream.slab, stream.id);
  }
  std::vector<StreamTarget> targets;
  for (const ShardMoment& moment : moments) {
    for (const SlabView& slab_view : moment.view->slabs()) {
      const std::shared_ptr<Slab>& slab = slab_view.slab;
      if (!slab->MayHold(range)) continue;
      for (auto& [structure, stream] : slab->Match(filter)) {
        if (wanted.has_value() && !chosen.contains({slab->id(), stream})) continue;
        std::optional<RowFilter> row_filter = RowFilter::Make(structure, filter);
        if (!row_filter.has_value()) continue;
        targets.push_back(
            {moment.view, slab, stream, std::move(structure), std::move(*row_filter)});
      }
    }
  }
  return targets;
}

std::vector<RowMask> MasksOf(const std::vector<meta::DeleteRecord>& deletes, const SlabId& slab,
                             const Structure& structure) {
  std::vector<RowMask> masks;
  for (const meta::DeleteRecord& record : deletes) {
    if (!record.Covers(slab)) continue;
    std::optional<RowFilter> filter = RowFilter::Make(structure, record.keys.filter);
    if (filter.has_value()) {
      masks.push_back({std::move(*filter), record.keys.range, record.serial});
    }
  }
  return masks;
}

std::unique_ptr<StreamReader> OpenReader(const StreamTarget& target, const TimeRange& range,
                                         const Position& position) {
  ReadRequest request{target.stream, target.structure, target.filter, range, position, {}};
  request.masks = MasksOf(target.view->deletes(), target.slab->id(), target.structure);
  return target.slab->layout().NewReader(target.view->Source(*target.slab), std::move(request));
}

std::string DescribeSlab(const SlabId& slab, const std::string& retention_class) {
  return "class '" + retention_class + "', generation " + std::to_string(slab.generation) +
         " of shard " + std::to_string(slab.shard);
}

}  // namespace topicdb
