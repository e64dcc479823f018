#include "store/database/structure_usage.h"

#include <map>
#include <utility>

#include "store/shard/shard.h"

namespace topicdb {

namespace {

using UsageByName = std::map<std::pair<std::string, std::string>, StructureUsage>;

Status AddSlab(const ShardMoment& moment, const Slab& slab, const InterruptCheck& interrupted,
               UsageByName* usage) {
  const std::string retention_class = moment.view->ClassFilterOf(slab.id());
  const SlabInfo info = slab.Info(retention_class);
  const auto sizes =
      slab.layout().SizesByStream(moment.view->Source(slab), slab.MatchIds(Filter::Everything()),
                                  {info.messages, info.bytes}, interrupted);
  TOPICDB_RETURN_IF_ERROR(sizes.status().WithContext(moment.view->Describe(slab.id())));
  SlabUsage on_disk;
  moment.shard->MeasureSlab(slab, &on_disk);
  double all = 0;
  for (const auto& [stream, size] : *sizes) all += static_cast<double>(size.bytes);
  for (const auto& [stream, size] : *sizes) {
    const auto structure = slab.StructureOf(stream);
    if (!structure.has_value()) continue;
    StructureUsage& one = (*usage)[{retention_class, structure->Text()}];
    one.retention_class = retention_class;
    one.structure = structure->Text();
    one.messages += size.messages;
    one.bytes += size.bytes;
    const double part = all == 0 ? 0 : static_cast<double>(size.bytes) / all;
    one.disk_bytes += static_cast<std::uint64_t>(part * static_cast<double>(on_disk.disk_bytes));
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<StructureUsage>> UsageByStructure(const std::vector<ShardMoment>& moments,
                                                     const InterruptCheck& interrupted) {
  UsageByName usage;
  for (const ShardMoment& moment : moments) {
    for (const SlabView& view : moment.view->slabs()) {
      TOPICDB_RETURN_IF_ERROR(AddSlab(moment, *view.slab, interrupted, &usage));
    }
  }
  std::vector<StructureUsage> structures;
  for (auto& [name, one] : usage) structures.push_back(std::move(one));
  return structures;
}

}  // namespace topicdb
