#include "store/catalog/shard_records.h"

#include <algorithm>

#include "base/bytes/coding.h"
#include "rocks/skipping_iterator.h"
#include "store/catalog/family_names.h"

namespace topicdb {

namespace {

constexpr std::size_t kSlabKeyBytes = 9;

class RecordReader {
 public:
  RecordReader(const rocks::Salvage& salvage, std::uint32_t shard)
      : salvage_(salvage), shard_(shard) {}

  Result<ShardRecords> Run() {
    const std::string& name = rocksdb::kDefaultColumnFamilyName;
    rocks::SkippingIterator records(salvage_.db(), nullptr, salvage_.families().at(name));
    for (records.Seek({}); records.Valid(); records.Next()) Take(records.key(), records.value());
    TOPICDB_RETURN_IF_ERROR(records.status());
    found_.is_incomplete =
        found_.is_incomplete || !records.gaps().empty() || salvage_.MayLack(name);
    if (!records.gaps().empty()) {
      found_.problems.push_back(
          "some of the shard's records are lost; deletes and jobs among them are forgotten: " +
          records.gaps().front().why);
    }
    TakeFamilies();
    return std::move(found_);
  }

 private:
  void Take(std::string_view key, std::string_view value) {
    const auto kind = static_cast<meta::KeyKind>(key.empty() ? 0 : key[0]);
    bool is_whole = true;
    switch (kind) {
      case meta::KeyKind::kIdentity:
        break;
      case meta::KeyKind::kCommitState:
        is_whole = meta::Decode(value, &found_.state.emplace());
        if (!is_whole) found_.state.reset();
        break;
      case meta::KeyKind::kSlab:
      case meta::KeyKind::kCounters:
      case meta::KeyKind::kNode:
        is_whole = TakeOfSlab(kind, key, value);
        break;
      default:
        found_.kept.emplace_back(key, value);
    }
    if (is_whole) return;
    found_.is_incomplete = true;
    found_.problems.push_back("a malformed record of kind " +
                              std::to_string(static_cast<int>(kind)) + " is left out");
  }

  bool TakeOfSlab(meta::KeyKind kind, std::string_view key, std::string_view value) {
    if (key.size() < kSlabKeyBytes) return false;
    const SlabId id{shard_, RetentionClassId{ReadBig<std::uint32_t>(key.substr(1))},
                    Generation{ReadBig<std::uint32_t>(key.substr(5))}};
    SalvagedSlab& slab = found_.slabs[id];
    if (kind == meta::KeyKind::kSlab) {
      const bool is_whole = meta::Decode(value, &slab.record.emplace());
      if (!is_whole) slab.record.reset();
      return is_whole;
    }
    if (kind == meta::KeyKind::kCounters) {
      const bool is_whole = meta::Decode(value, &slab.counters.emplace());
      if (!is_whole) slab.counters.reset();
      return is_whole;
    }
    NodeRecord node;
    if (!meta::Decode(key, value, &node)) return false;
    slab.nodes[node.id] = std::move(node);
    return true;
  }

  // Adds the slabs of families without a record if records are missing, and leaves out slabs that
  // were being dropped. If no record is missing, such a family was just being made when the process
  // ended.
  void TakeFamilies() {
    for (const auto& [name, handle] : salvage_.families()) {
      SlabId id{shard_, {}, {}};
      if (found_.is_incomplete && DecodeFamilyName(name, &id)) found_.slabs[id];
    }
    std::erase_if(found_.slabs, [&](const auto& item) {
      const std::optional<meta::SlabRecord>& record = item.second.record;
      if (!record.has_value()) return !found_.is_incomplete;
      return record->state == meta::SlabState::kDropping;
    });
  }

  const rocks::Salvage& salvage_;
  const std::uint32_t shard_;
  ShardRecords found_;
};

}  // namespace

std::optional<Structure> SalvagedSlab::StructureOf(StreamId stream) const {
  auto node = nodes.find(stream.value());
  if (node == nodes.end()) return std::nullopt;
  Structure structure;
  structure.any = node->second.kind == NodeKind::kAny;
  if (node->second.kind != NodeKind::kEnd && !structure.any) return std::nullopt;
  // The loop ends, because the number of a parent must be smaller.
  while (node->second.parent != kRootNode) {
    const auto parent = nodes.find(node->second.parent);
    if (parent == nodes.end() || parent->first >= node->first) return std::nullopt;
    node = parent;
    const auto kind =
        node->second.kind == NodeKind::kPlus ? Filter::LevelKind::kPlus : Filter::LevelKind::kWord;
    structure.levels.push_back({kind, node->second.label});
  }
  std::reverse(structure.levels.begin(), structure.levels.end());
  return structure;
}

Result<ShardRecords> ReadShardRecords(const rocks::Salvage& salvage, std::uint32_t shard) {
  return RecordReader(salvage, shard).Run();
}

}  // namespace topicdb
