#include "store/shard/generation/slab_maker.h"

#include "rocks/rocks_compat.h"
#include "store/catalog/family_names.h"
#include "structure/structure_learner.h"

namespace topicdb {

Result<FamiliesByName> SlabMaker::MakeFamilies(const std::vector<NewSlab>& slabs,
                                               std::size_t ahead) {
  std::vector<std::string> names;
  std::vector<std::string> names_ahead;
  const auto add = [&](const NewSlab& slab, std::vector<std::string>* to) {
    for (std::string& name : FamilyNames(slab.layout, slab.id)) to->push_back(std::move(name));
  };
  for (NewSlab slab : slabs) {
    add(slab, &names);
    for (std::size_t i = 0; i < ahead; ++i) {
      slab.id.generation = slab.id.generation.Next(GenerationStep(slab.id.retention_class));
      add(slab, &names_ahead);
    }
  }
  FamiliesByName families;
  const rocksdb::Status status = stock_.Take(shard_.db.get(), names, names_ahead, &families);
  if (status.ok()) {
    rocks::FamilyHandles handles;
    for (const auto& [name, family] : families) handles.push_back(family->get());
    shard_.families.Add(families);
    shard_.log()->AddFamilies(handles);
    return families;
  }
  // If the directory is gone, that says more than what RocksDB has met.
  TOPICDB_RETURN_IF_ERROR(shard_.CheckInPlaceLocked());
  const Status fault = rocks::FromRocks(status, "creating a generation of " + shard_.Name());
  shard_.Poison(fault);
  return fault;
}

Result<std::shared_ptr<Slab>> SlabMaker::Make(const SlabId& id, const meta::SlabRecord& record,
                                              const Slab* previous, FamiliesByName* families,
                                              rocksdb::WriteBatch* batch) {
  StructureTrie trie(shard_.environment->learning);
  StructureEdit edit(trie);
  TOPICDB_RETURN_IF_ERROR(
      SeedStructures(shard_.environment->IsReserved(id), previous, &edit, batch));
  const NodeRecord root{kRootNode, kNoNode, NodeKind::kWord, edit.root_all_vary(), {}};
  rocksdb::Status status = batch->Put(meta::NodeKey(id, kRootNode), meta::Encode(root));
  for (const NodeRecord& node : edit.nodes()) {
    if (status.ok()) status = batch->Put(meta::NodeKey(id, node.id), meta::Encode(node));
  }
  if (status.ok()) status = batch->Put(meta::SlabKey(id), meta::Encode(record));
  if (status.ok()) status = batch->Put(meta::CountersKey(id), meta::Encode(meta::SlabCounters{}));
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "preparing a generation of " + shard_.Name()));
  trie.Apply(edit);

  return Slab::Make(id, record, families, std::move(trie), {});
}

// The structures are the hints, and those of the previous generation: learned anew from its topics,
// or, if the learning is not adaptive or there are no topics, those that it had learned.
Status SlabMaker::SeedStructures(bool reserved, const Slab* previous, StructureEdit* edit,
                                 rocksdb::WriteBatch* batch) {
  static const std::vector<std::string> kReservedHints{
      "$topicdb/map/+/+",          "$topicdb/owner/+",         "$topicdb/consumer/+/state",
      "$topicdb/consumer/+/fence", "$topicdb/consumer/+/at/+", "$topicdb/group/+/state",
      "$topicdb/group/+/fence",    "$topicdb/group/+/at/+",    "$topicdb/session/+/state"};
  for (const std::string& hint :
       reserved ? kReservedHints : shard_.environment->schema.structures) {
    TOPICDB_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(hint));
    edit->SeedHint(filter);
  }
  if (previous == nullptr) return Status::Ok();
  const Learning& learning = shard_.environment->learning;
  std::vector<Structure> structures;
  if (learning.adaptive && !reserved) {
    TOPICDB_ASSIGN_OR_RETURN(const auto topics,
                             TopicSample::ReadTopics(shard_.db.get(), previous->id()));
    const std::vector<std::string_view> views(topics.begin(), topics.end());
    // This takes half of the budget, so that there is room for new structures.
    structures = LearnStructures(views, learning.streams_max / 2);
  }
  // Nobody needs the sample of the previous slab any more. It may exist even if the learning is not
  // adaptive now.
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
      batch->DeleteRange(meta::SampleLevelKey(previous->id()), meta::SampleEnd(previous->id())),
      "preparing a generation of " + shard_.Name()));
  if (structures.empty()) {
    const StructureTrie& trie = previous->TrieForCommit();
    trie.ForEachStream([&](StreamId stream) {
      Structure structure = trie.StructureOf(stream);
      if (!structure.levels.empty() && structure.VaryingCount() > 0) {
        structures.push_back(std::move(structure));
      }
    });
  }
  for (const Structure& structure : structures) edit->SeedStructure(structure);
  return Status::Ok();
}

bool SlabMaker::KeepsLast(RetentionClassId retention_class) const {
  const RetentionRule* rule = shard_.rules->Find(retention_class);
  return rule != nullptr && rule->limits.keep_last > 0;
}

std::uint32_t SlabMaker::GenerationStep(RetentionClassId retention_class) const {
  return KeepsLast(retention_class) ? 2 : 1;
}

Status SlabMaker::DropUnused(FamiliesByName unnamed) {
  stock_.Put(std::move(unnamed));
  Status status = shard_.DropFamilies(stock_.handles());
  stock_.Clear();
  return status;
}

}  // namespace topicdb
