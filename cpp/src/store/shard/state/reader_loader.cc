#include "store/shard/state/reader_loader.h"

#include <string>
#include <string_view>
#include <utility>

#include "store/shard/state/record_reader.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb {

namespace {

Result<StructureTrie> LoadTrie(const ShardState& shard, const RecordReader& records,
                               const SlabId& id) {
  StructureTrie trie(shard.environment->learning);
  bool has_root = false;
  TOPICDB_RETURN_IF_ERROR(records.ForEach(
      meta::NodePrefix(id), "structures", [&](std::string_view key, std::string_view value) {
        NodeRecord node;
        if (!meta::Decode(key, value, &node)) {
          return records.Damaged("a structure node is malformed");
        }
        has_root = true;
        return trie.Restore(node).WithContext(shard.Name());
      }));
  if (!has_root) return records.Damaged("a generation has no structures");
  return trie;
}

// Loads one shard, once. Not thread-safe.
class ReaderLoader {
 public:
  ReaderLoader(ShardState* shard, std::vector<SlabView>* slabs)
      : shard_(*shard), slabs_(*slabs), records_(shard->db.get(), shard->Name()) {}

  Status Run() TOPICDB_REQUIRES(shard_.mutex) {
    TOPICDB_RETURN_IF_ERROR(CheckIdentity());
    TOPICDB_RETURN_IF_ERROR(LoadCommitState());
    TOPICDB_RETURN_IF_ERROR(LoadDeletes());
    TOPICDB_RETURN_IF_ERROR(LoadJobs());
    TOPICDB_RETURN_IF_ERROR(LoadRules());
    return LoadSlabs();
  }

 private:
  Status CheckIdentity() const {
    TOPICDB_ASSIGN_OR_RETURN(const std::string record,
                             records_.Get(meta::IdentityKey(), "identity"));
    meta::Identity identity;
    if (!meta::Decode(record, &identity)) return records_.Damaged("its identity is malformed");
    if (identity == meta::Identity{shard_.environment->database, shard_.index}) {
      return Status::Ok();
    }
    return records_.Damaged(ShardDirectory(shard_.environment->directory, shard_.index) +
                            " belongs to another database or shard");
  }

  Status LoadCommitState() TOPICDB_REQUIRES(shard_.mutex) {
    TOPICDB_ASSIGN_OR_RETURN(const std::string record,
                             records_.Get(meta::CommitStateKey(), "commit state"));
    return meta::Decode(record, &shard_.commit) ? Status::Ok()
                                                : records_.Damaged("its commit state is malformed");
  }

  Status LoadDeletes() TOPICDB_REQUIRES(shard_.mutex) {
    std::vector<meta::DeleteRecord> deletes;
    TOPICDB_RETURN_IF_ERROR(records_.ForEach(
        meta::DeletePrefix(), "deletes", [&](std::string_view key, std::string_view value) {
          return meta::Decode(key, value, &deletes.emplace_back())
                     ? Status::Ok()
                     : records_.Damaged("the record of a delete is malformed");
        }));
    shard_.deletes = std::make_shared<const std::vector<meta::DeleteRecord>>(std::move(deletes));
    return Status::Ok();
  }

  Status LoadJobs() TOPICDB_REQUIRES(shard_.mutex) {
    meta::JobRecords jobs;
    const std::string prefix = meta::JobPrefix();
    TOPICDB_RETURN_IF_ERROR(
        records_.ForEach(prefix, "jobs", [&](std::string_view key, std::string_view value) {
          return meta::Decode(value, &jobs[std::string(key.substr(prefix.size()))])
                     ? Status::Ok()
                     : records_.Damaged("the record of a job is malformed");
        }));
    shard_.jobs = std::make_shared<const meta::JobRecords>(std::move(jobs));
    return Status::Ok();
  }

  // Loads the rules that a replica follows. The file `retention` may have earlier ones, and those
  // of the database may be later ones, which the replica has not adopted.
  Status LoadRules() TOPICDB_REQUIRES(shard_.mutex) {
    TOPICDB_ASSIGN_OR_RETURN(const auto record,
                             records_.Find(meta::ReplicatedRulesKey(), "retention rules"));
    if (!record.has_value()) return Status::Ok();
    auto rules = DecodeRetention(*record, "the record of its retention rules");
    TOPICDB_RETURN_IF_ERROR(rules.status().WithContext(shard_.Name()));
    shard_.environment->retention->Set(*rules);
    // Who does not follow the log only has to know the classes.
    shard_.rules = shard_.environment->open_log
                       ? std::make_shared<const RetentionRules>(std::move(*rules))
                       : shard_.environment->rules();
    return Status::Ok();
  }

  Status LoadSlabs() TOPICDB_REQUIRES(shard_.mutex) {
    std::vector<std::pair<std::string, std::string>> found;
    TOPICDB_RETURN_IF_ERROR(records_.ForEach(meta::SlabPrefix(), "generations",
                                             [&](std::string_view key, std::string_view value) {
                                               found.emplace_back(key, value);
                                               return Status::Ok();
                                             }));
    for (const auto& [key, value] : found) TOPICDB_RETURN_IF_ERROR(TakeSlab(key, value));
    return Status::Ok();
  }

  Status TakeSlab(std::string_view key, std::string_view value) TOPICDB_REQUIRES(shard_.mutex) {
    SlabId id{shard_.index, {}, {}};
    meta::SlabRecord record;
    if (!meta::DecodeSlabKey(key, &id) || !meta::Decode(value, &record) ||
        !IsKnownClass(&shard_, id)) {
      return records_.Damaged("the record of a generation is malformed");
    }
    if (record.state == meta::SlabState::kDropping) return Status::Ok();
    TOPICDB_ASSIGN_OR_RETURN(auto slab, LoadSlab(shard_, id, record, &families_));
    if (shard_.environment->read_only) {  // a writer does it with its log
      TOPICDB_RETURN_IF_ERROR(slab->layout()
                                  .Restore({shard_.db.get(), nullptr, slab->families(), nullptr},
                                           /*read_only=*/true, slab->layout_state())
                                  .WithContext(shard_.Name()));
    }
    slabs_.push_back(
        {std::move(slab), record.state == meta::SlabState::kReadOnly, record.sealed_at});
    return Status::Ok();
  }

  ShardState& shard_;
  std::vector<SlabView>& slabs_;
  const RecordReader records_;
  FamiliesByName families_ = shard_.families.all();  // that no slab has yet
};

}  // namespace

// The analysis does not know that the shard of the loader is this one.
Status LoadToRead(ShardState* shard,
                  std::vector<SlabView>* slabs) TOPICDB_NO_THREAD_SAFETY_ANALYSIS {
  return ReaderLoader(shard, slabs).Run();
}

Result<std::shared_ptr<Slab>> LoadSlab(const ShardState& shard, const SlabId& id,
                                       const meta::SlabRecord& record, FamiliesByName* families) {
  const RecordReader records(shard.db.get(), shard.Name());
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes,
                           records.Get(meta::CountersKey(id), "counters of a generation"));
  meta::SlabCounters counters;
  if (!meta::Decode(bytes, &counters)) {
    return records.Damaged("counters of a generation are malformed");
  }
  TOPICDB_ASSIGN_OR_RETURN(StructureTrie trie, LoadTrie(shard, records, id));
  auto made = Slab::Make(id, record, families, std::move(trie), counters);
  TOPICDB_RETURN_IF_ERROR(made.status().WithContext(shard.Name()));
  return std::move(*made);
}

bool IsKnownClass(ShardState* shard, const SlabId& id) {
  const ShardEnvironment& environment = *shard->environment;
  if (id.retention_class < shard->rules->ids_end()) return true;
  auto now = LoadRetention(environment.directory, environment.schema.retention);
  if (!environment.read_only || !now.ok()) return false;
  environment.retention->Set(std::move(now).value());
  shard->rules = environment.rules();
  return id.retention_class < shard->rules->ids_end();
}

}  // namespace topicdb
