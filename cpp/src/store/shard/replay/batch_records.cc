#include "store/shard/replay/batch_records.h"

#include <utility>

#include "rocks/rocks_compat.h"
#include "store/catalog/retention_file.h"

namespace topicdb {

namespace {

constexpr std::uint32_t kDefaultFamily = 0;

// Adds what a batch has to the records. Not thread-safe.
class RecordHandler : public rocksdb::WriteBatch::Handler {
 public:
  RecordHandler(std::uint32_t shard, const RemovesMessages& removes, BatchRecords* records)
      : shard_(shard), removes_(removes), records_(*records) {}

  rocksdb::Status PutCF(std::uint32_t family, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    if (family != kDefaultFamily) {
      NoteRemoval(family, key.ToStringView(), /*deletes=*/false);
      return rocksdb::Status::OK();
    }
    if (!key.empty() && TakeRecord(key.ToStringView(), value.ToStringView())) {
      return rocksdb::Status::OK();
    }
    return rocksdb::Status::Corruption("a record of the shard is malformed");
  }
  rocksdb::Status DeleteCF(std::uint32_t family, const rocksdb::Slice& key) override {
    if (family != kDefaultFamily) {
      NoteRemoval(family, key.ToStringView(), /*deletes=*/true);
    } else {
      RemoveRecord(key.ToStringView());
    }
    return rocksdb::Status::OK();
  }
  // In the default family these are the structures, the samples and the topics of slabs, which go
  // with their slab or which only a writer needs.
  rocksdb::Status DeleteRangeCF(std::uint32_t family, const rocksdb::Slice& begin,
                                const rocksdb::Slice&) override {
    if (family != kDefaultFamily) NoteRemoval(family, begin.ToStringView(), /*deletes=*/true);
    return rocksdb::Status::OK();
  }

 private:
  void NoteRemoval(std::uint32_t family, std::string_view key, bool deletes) {
    const bool removes = removes_(family, key, deletes);
    if (!deletes && !removes) return;
    bool& removes_any = records_.families[family];
    removes_any = removes_any || removes;
  }

  // Returns false if the record is malformed.
  bool TakeRecord(std::string_view key, std::string_view value) {
    SlabId slab{shard_, {}, {}};
    switch (static_cast<meta::KeyKind>(key.front())) {
      case meta::KeyKind::kCommitState:
        return meta::Decode(value, &records_.commit.emplace());
      case meta::KeyKind::kReplicatedRules: {
        auto rules = DecodeRetention(value, "a batch");
        if (!rules.ok()) return false;
        records_.rules = std::make_shared<const RetentionRules>(std::move(*rules));
        return true;
      }
      case meta::KeyKind::kSlab: {
        meta::SlabRecord record;
        if (!meta::DecodeSlabKey(key, &slab) || !meta::Decode(value, &record)) return false;
        records_.slabs[slab] = record;
        return true;
      }
      case meta::KeyKind::kCounters:
        return meta::DecodeSlabOf(key, &slab) && meta::Decode(value, &records_.counters[slab]);
      case meta::KeyKind::kNode:
        return meta::DecodeSlabOf(key, &slab) &&
               meta::Decode(key, value, &records_.nodes[slab].emplace_back());
      case meta::KeyKind::kDelete:
        return meta::Decode(key, value, &records_.deletes.emplace_back());
      case meta::KeyKind::kJob: {
        meta::JobRecord record;
        if (!meta::Decode(value, &record)) return false;
        records_.jobs[SequenceOf(key)] = std::move(record);
        return true;
      }
      default:
        return true;  // only a writer needs it, and reads it when it begins to write
    }
  }

  void RemoveRecord(std::string_view key) {
    if (key.empty()) return;
    SlabId slab{shard_, {}, {}};
    switch (static_cast<meta::KeyKind>(key.front())) {
      case meta::KeyKind::kSlab:
        if (meta::DecodeSlabKey(key, &slab)) records_.slabs[slab] = std::nullopt;
        return;
      case meta::KeyKind::kDelete: {
        Serial serial;
        std::uint32_t index = 0;
        if (meta::DecodeDeleteKey(key, &serial, &index)) {
          records_.finished_deletes.emplace(serial, index);
        }
        return;
      }
      case meta::KeyKind::kJob:
        records_.jobs[SequenceOf(key)] = std::nullopt;
        return;
      default:
        return;
    }
  }

  static std::string SequenceOf(std::string_view key) {
    return std::string(key.substr(meta::JobPrefix().size()));
  }

  const std::uint32_t shard_;
  const RemovesMessages& removes_;
  BatchRecords& records_;
};

}  // namespace

Result<BatchRecords> ReadBatch(const rocksdb::WriteBatch& batch, std::uint32_t shard,
                               const RemovesMessages& removes) {
  BatchRecords records;
  RecordHandler handler(shard, removes, &records);
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch.Iterate(&handler), "reading a batch"));
  return records;
}

}  // namespace topicdb
