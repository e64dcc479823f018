#include "store/shard/state/shard_loader.h"

#include <algorithm>
#include <optional>

#include "rocks/local_log.h"
#include "rocks/rocks_compat.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb {

namespace {

// Loads one shard, once. Not thread-safe.
class ShardLoader {
 public:
  ShardLoader(std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index)
      : environment_(std::move(environment)),
        directory_(ShardDirectory(environment_->directory, index)) {
    found_.state = std::make_unique<ShardState>(environment_, index);
    shard_ = found_.state.get();
  }

  Result<LoadedShard> Run(bool create) {
    TOPICDB_ASSIGN_OR_RETURN(ShardRocks rocks,
                             OpenShardRocks(*environment_, shard_->index, create));
    shard_->directory_lock = std::move(rocks.directory_lock);
    shard_->db = std::move(rocks.db);
    shard_->default_family = std::move(rocks.default_family);
    found_.unnamed = std::move(rocks.families);
    TOPICDB_RETURN_IF_ERROR(OpenLog());
    TOPICDB_RETURN_IF_ERROR(Load(create));
    return std::move(found_);
  }

 private:
  // A replicated shard is made by the entries of its log. So the first leader finds a RocksDB
  // without an identity, and one that leads after a crash may find no slabs.
  Status Load(bool create) {
    const MutexLock lock(shard_->mutex);
    const bool is_replicated = environment_->open_log && !environment_->read_only;
    if (!create && is_replicated) {
      TOPICDB_ASSIGN_OR_RETURN(const bool has_identity, HasRecord(meta::IdentityKey()));
      create = !has_identity;
    }
    TOPICDB_RETURN_IF_ERROR(create ? WriteIdentity() : CheckIdentity());
    TOPICDB_RETURN_IF_ERROR(LoadCommitState());
    TOPICDB_RETURN_IF_ERROR(LoadRules());
    if (!create) TOPICDB_RETURN_IF_ERROR(LoadClock());
    TOPICDB_RETURN_IF_ERROR(LoadDeletes());
    TOPICDB_RETURN_IF_ERROR(LoadJobs());
    if (!environment_->read_only) TOPICDB_RETURN_IF_ERROR(LoadAppendIds());
    if (!create) TOPICDB_RETURN_IF_ERROR(LoadSlabs());
    found_.is_new = create || (is_replicated && found_.slabs.empty() && found_.dropping.empty());
    return Status::Ok();
  }

  Result<bool> HasRecord(const std::string& key) const {
    std::string value;
    const rocksdb::Status status = shard_->db->Get(rocksdb::ReadOptions(), key, &value);
    if (status.IsNotFound()) return false;
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "opening " + directory_));
    return true;
  }

  // A database that is only read has RocksDB's log, whatever log its writer has: it writes nothing.
  Status OpenLog() {
    if (environment_->open_log && !environment_->read_only) {
      TOPICDB_ASSIGN_OR_RETURN(
          shard_->log,
          environment_->open_log({shard_->db.get(), shard_->Name(), *shard_->default_family,
                                  &found_.unnamed, environment_->resources}));
      return Status::Ok();
    }
    if (!environment_->read_only) TOPICDB_RETURN_IF_ERROR(CheckNotReplicated());
    shard_->log = std::make_unique<rocks::LocalLog>(shard_->db.get(), shard_->Name());
    return Status::Ok();
  }

  // A write that the replicated log does not have would make this replica differ from the others.
  Status CheckNotReplicated() const {
    TOPICDB_ASSIGN_OR_RETURN(const bool is_replicated, HasRecord(meta::AppliedKey()));
    if (!is_replicated) return Status::Ok();
    return ReadOnly(shard_->Name() +
                    " is one of several replicas, so only its site may write it: "
                    "read it with mode='r', or write to the database by way of its site");
  }

  meta::Identity ExpectedIdentity() const { return {environment_->database, shard_->index}; }

  Status WriteIdentity() TOPICDB_REQUIRES(shard_->mutex) {
    rocksdb::WriteBatch batch;
    rocksdb::Status status = batch.Put(meta::IdentityKey(), meta::Encode(ExpectedIdentity()));
    if (status.ok()) status = batch.Put(meta::CommitStateKey(), meta::Encode(meta::CommitState{}));
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "creating " + shard_->Name()));
    return shard_->Write({rocks::EntryKind::kNumbers}, &batch);
  }

  Status Get(const std::string& key, const char* what, std::string* value) const {
    const rocksdb::Status status = shard_->db->Get(rocksdb::ReadOptions(), key, value);
    if (status.IsNotFound()) return Damaged(std::string("it has no ") + what);
    return rocks::FromRocks(status, std::string("reading ") + what + " of " + shard_->Name());
  }

  Status Damaged(const std::string& reason) const {
    return Corruption(shard_->Name() + ": " + reason);
  }

  Status CheckIdentity() const {
    std::string value;
    TOPICDB_RETURN_IF_ERROR(Get(meta::IdentityKey(), "identity", &value));
    meta::Identity identity;
    if (!meta::Decode(value, &identity)) return Damaged("its identity is malformed");
    if (identity == ExpectedIdentity()) return Status::Ok();
    return Damaged(directory_ + " belongs to another database or shard");
  }

  Status LoadCommitState() TOPICDB_REQUIRES(shard_->mutex) {
    std::string value;
    TOPICDB_RETURN_IF_ERROR(Get(meta::CommitStateKey(), "commit state", &value));
    meta::CommitState& state = shard_->commit;
    if (!meta::Decode(value, &state)) return Damaged("its commit state is malformed");
    if (!environment_->read_only) state.serial = std::max(state.serial, state.serial_limit);
    return Status::Ok();
  }

  // Loads the version of the rules that the shard follows. Without a record, the shard follows the
  // rules as they were when it was made.
  Status LoadRules() {
    std::string value;
    const rocksdb::Status status =
        shard_->db->Get(rocksdb::ReadOptions(), meta::RulesKey(), &value);
    if (status.IsNotFound()) return Status::Ok();
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(status, "reading the retention rules of " + shard_->Name()));
    return meta::DecodeRules(value, &found_.rules_version)
               ? Status::Ok()
               : Damaged("the record of its retention rules is malformed");
  }

  // Loads the record of the clock. Databases that were made before there was such a record have
  // none.
  Status LoadClock() {
    std::string value;
    const rocksdb::Status status =
        shard_->db->Get(rocksdb::ReadOptions(), meta::ClockKey(), &value);
    std::optional<LeapRecord> record;
    if (!status.IsNotFound()) {
      TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "reading the clock of " + shard_->Name()));
      if (!meta::Decode(value, &record.emplace())) return Damaged("its clock is malformed");
    }
    shard_->clock.Restore(record, ReadClocks());
    return Status::Ok();
  }

  Status LoadDeletes() TOPICDB_REQUIRES(shard_->mutex) {
    std::vector<meta::DeleteRecord> deletes;
    const std::string prefix = meta::DeletePrefix();
    const std::unique_ptr<rocksdb::Iterator> records(
        shard_->db->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      meta::DeleteRecord record;
      if (!meta::Decode(records->key().ToStringView(), records->value().ToStringView(), &record)) {
        return Damaged("the record of a delete is malformed");
      }
      deletes.push_back(std::move(record));
    }
    shard_->deletes = std::make_shared<const std::vector<meta::DeleteRecord>>(std::move(deletes));
    return rocks::FromRocks(records->status(), "reading deletes of " + shard_->Name());
  }

  Status LoadJobs() TOPICDB_REQUIRES(shard_->mutex) {
    meta::JobRecords jobs;
    const std::string prefix = meta::JobPrefix();
    const std::unique_ptr<rocksdb::Iterator> records(
        shard_->db->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      meta::JobRecord& job = jobs[records->key().ToString().substr(prefix.size())];
      if (!meta::Decode(records->value().ToStringView(), &job)) {
        return Damaged("the record of a job is malformed");
      }
    }
    shard_->jobs = std::make_shared<const meta::JobRecords>(std::move(jobs));
    return rocks::FromRocks(records->status(), "reading jobs of " + shard_->Name());
  }

  Status LoadAppendIds() TOPICDB_REQUIRES(shard_->mutex) {
    const std::string prefix = meta::AppendIdPrefix();
    const std::unique_ptr<rocksdb::Iterator> records(
        shard_->db->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      std::string id;
      KnownAppend known;
      if (!meta::Decode(records->key().ToStringView(), records->value().ToStringView(), &id,
                        &known)) {
        return Damaged("the record of an append's id is malformed");
      }
      found_.append_ids->Add(id, known);
    }
    return rocks::FromRocks(records->status(), "reading ids of appends of " + shard_->Name());
  }

  Status LoadSlabs() TOPICDB_REQUIRES(shard_->mutex) {
    const std::string prefix = meta::SlabPrefix();
    const std::unique_ptr<rocksdb::Iterator> records(
        shard_->db->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      SlabId id{shard_->index, {}, {}};
      meta::SlabRecord record;
      if (!meta::DecodeSlabKey(records->key().ToStringView(), &id) ||
          !meta::Decode(records->value().ToStringView(), &record) || !IsKnownClass(id)) {
        return Damaged("the record of a generation is malformed");
      }
      if (record.state == meta::SlabState::kDropping) {
        found_.dropping.push_back(id);
        continue;
      }
      TOPICDB_ASSIGN_OR_RETURN(auto slab, LoadSlab(id, record));
      found_.slabs.push_back(
          {std::move(slab), record.state == meta::SlabState::kReadOnly, record.sealed_at});
    }
    return rocks::FromRocks(records->status(), "reading generations of " + shard_->Name());
  }

  // Returns whether the rules have the class of a slab. A reader may have read the rules before a
  // writer changed them; it then reads them again.
  bool IsKnownClass(const SlabId& id) TOPICDB_REQUIRES(shard_->mutex) {
    if (id.retention_class < shard_->rules->ids_end()) return true;
    auto now = LoadRetention(environment_->directory, environment_->schema.retention);
    if (!environment_->read_only || !now.ok()) return false;
    environment_->retention->Set(std::move(now).value());
    shard_->rules = environment_->rules();
    return id.retention_class < shard_->rules->ids_end();
  }

  Result<std::shared_ptr<Slab>> LoadSlab(const SlabId& id, const meta::SlabRecord& record) {
    std::string value;
    TOPICDB_RETURN_IF_ERROR(Get(meta::CountersKey(id), "counters of a generation", &value));
    meta::SlabCounters counters;
    if (!meta::Decode(value, &counters)) return Damaged("counters of a generation are malformed");
    StructureTrie trie(environment_->learning);
    TOPICDB_RETURN_IF_ERROR(LoadTrie(id, &trie));
    auto made = Slab::Make(id, record, &found_.unnamed, std::move(trie), counters);
    TOPICDB_RETURN_IF_ERROR(made.status().WithContext(shard_->Name()));
    const std::shared_ptr<Slab> slab = std::move(*made);
    if (!environment_->read_only && record.state == meta::SlabState::kCurrent) {
      TOPICDB_RETURN_IF_ERROR(
          slab->MutableSample()->Load(shard_->db.get(), id).WithContext(shard_->Name()));
    }
    TOPICDB_RETURN_IF_ERROR(
        slab->layout()
            .Restore({shard_->db.get(), nullptr, slab->families(), shard_->log.get()},
                     environment_->read_only, slab->layout_state())
            .WithContext(shard_->Name()));
    return slab;
  }

  Status LoadTrie(const SlabId& id, StructureTrie* trie) const {
    const std::string prefix = meta::NodePrefix(id);
    bool has_root = false;
    const std::unique_ptr<rocksdb::Iterator> nodes(shard_->db->NewIterator(rocksdb::ReadOptions()));
    for (nodes->Seek(prefix); nodes->Valid() && nodes->key().starts_with(prefix); nodes->Next()) {
      NodeRecord node;
      if (!meta::Decode(nodes->key().ToStringView(), nodes->value().ToStringView(), &node)) {
        return Damaged("a structure node is malformed");
      }
      TOPICDB_RETURN_IF_ERROR(trie->Restore(node).WithContext(shard_->Name()));
      has_root = true;
    }
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(nodes->status(), "reading structures of " + shard_->Name()));
    return has_root ? Status::Ok() : Damaged("a generation has no structures");
  }

  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::string directory_;
  LoadedShard found_;
  ShardState* shard_;  // that of found_
};

}  // namespace

Result<LoadedShard> LoadShard(const std::shared_ptr<const ShardEnvironment>& environment,
                              std::uint32_t index, bool create) {
  return ShardLoader(environment, index).Run(create);
}

}  // namespace topicdb
