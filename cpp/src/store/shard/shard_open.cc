// Opening a shard: from column families and records on disk to slabs in memory.

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include "base/thread/fork_guard.h"
#include "rocks/files/file_state.h"
#include "rocks/files/process_threads.h"
#include "rocks/log/log_check.h"
#include "rocks/rocks_compat.h"
#include "store/shard/shard.h"

namespace topicdb {

namespace {
// A writer may remove files, or make and drop column families, while a reader opens.
constexpr std::chrono::seconds kReadOnlyPatience(10);
constexpr int kReadOnlyAttemptsUnchanged = 5;
constexpr std::chrono::milliseconds kReadOnlyPause(10);

Result<std::unique_ptr<FileLock>> LockToWrite(const std::string& path) {
  Result<std::unique_ptr<FileLock>> lock = FileLock::Acquire(path);
  if (lock.ok() || lock.status().code() != Code::kLocked) return lock;
  return Locked(lock.status().message() +
                ": one process writes at a time. To read beside it, open with mode='r'; to share "
                "it with other processes, let it, or `topicdb serve`, offer the database to "
                "topicdb.connect");
}
}  // namespace

class ShardOpener {
 public:
  ShardOpener(std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index)
      : environment_(std::move(environment)),
        directory_(Shard::DirectoryOf(environment_->database_path, index)),
        shard_(new Shard(environment_, index)) {}

  // As Shard::Open. The shard closes itself if this fails.
  Result<std::shared_ptr<Shard>> Run(bool create) {
    if (!environment_->read_only) {
      TOPICDB_RETURN_IF_ERROR(rocks::CheckProcessMayWrite());
      TOPICDB_ASSIGN_OR_RETURN(shard_->lock_, LockToWrite(directory_ + ".lock"));
    }
    if (create) {
      TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory_));
    } else {
      TOPICDB_RETURN_IF_ERROR(CheckDirectory());
    }
    TOPICDB_RETURN_IF_ERROR(OpenRocks(create));
    TOPICDB_RETURN_IF_ERROR(Load(create));
    if (environment_->read_only) return shard_;
    TOPICDB_RETURN_IF_ERROR(shard_->FinishDeletes());
    // What was read-only when the database was closed may not be compressed as it should be.
    const auto moment = shard_->view();
    const bool may_seal = std::any_of(
        moment->slabs().begin(), moment->slabs().end(),
        [](const SlabView& view) { return view.read_only && view.slab->layout().seals(); });
    if (may_seal) environment_->sealer->Wake(shard_.get());
    return shard_;
  }

 private:
  Status Load(bool create) {
    const MutexLock lock(shard_->commit_mutex_);
    TOPICDB_RETURN_IF_ERROR(create ? WriteIdentity() : CheckIdentity());
    TOPICDB_RETURN_IF_ERROR(LoadCommitState());
    TOPICDB_RETURN_IF_ERROR(LoadRules());
    if (!create) TOPICDB_RETURN_IF_ERROR(LoadClock());
    TOPICDB_RETURN_IF_ERROR(LoadDeletes());
    TOPICDB_RETURN_IF_ERROR(LoadJobs());
    if (!environment_->read_only) TOPICDB_RETURN_IF_ERROR(LoadAppendIds());
    return create ? CreateSlabs() : LoadSlabs();
  }

  Status CheckDirectory() const {
    if (Exists(directory_ + "/CURRENT")) return Status::Ok();
    return Corruption(shard_->Name() + ": " + directory_ + " or its file CURRENT is missing");
  }

  Status OpenRocks(bool create) {
    const rocksdb::DBOptions options =
        rocks::MakeDbOptions(environment_->resources, environment_->read_only);
    std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName};
    const std::string context = "opening " + directory_;
    if (!create) {
      const auto use = environment_->read_only ? rocks::LogUse::kRead : rocks::LogUse::kWrite;
      TOPICDB_RETURN_IF_ERROR(rocks::CheckLogs(directory_, use).WithContext(context));
      TOPICDB_RETURN_IF_ERROR(
          rocks::FromRocks(rocksdb::DB::ListColumnFamilies(options, directory_, &names), context));
    }
    rocks::Families families;
    for (const std::string& name : names) {
      families.emplace_back(name, rocks::FamilyOptions(environment_->resources, FamilyUseOf(name)));
    }
    rocks::FamilyHandles handles;
    const rocksdb::Status status =
        environment_->read_only
            ? rocks::OpenForReadOnly(options, directory_, families, &handles, &shard_->db_)
            : rocks::Open(options, directory_, families, &handles, &shard_->db_);
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, context));
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      auto owned = std::make_unique<FamilyHandle>(shard_->db_.get(), handle);
      if (handle->GetName() == rocksdb::kDefaultColumnFamilyName) {
        shard_->default_family_ = std::move(owned);
      } else {
        families_[handle->GetName()] = std::move(owned);
      }
    }
    return Status::Ok();
  }

  meta::Identity ExpectedIdentity() const { return {environment_->database, shard_->index_}; }

  Status WriteIdentity() TOPICDB_REQUIRES(shard_->commit_mutex_) {
    rocksdb::WriteBatch batch;
    rocksdb::Status status = batch.Put(meta::IdentityKey(), meta::Encode(ExpectedIdentity()));
    if (status.ok()) status = batch.Put(meta::CommitStateKey(), meta::Encode(meta::CommitState{}));
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "creating " + shard_->Name()));
    return shard_->Write(rocksdb::WriteOptions(), &batch);
  }

  Status Get(const std::string& key, const char* what, std::string* value) const {
    const rocksdb::Status status = shard_->db_->Get(rocksdb::ReadOptions(), key, value);
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

  Status LoadCommitState() TOPICDB_REQUIRES(shard_->commit_mutex_) {
    std::string value;
    TOPICDB_RETURN_IF_ERROR(Get(meta::CommitStateKey(), "commit state", &value));
    meta::CommitState& state = shard_->state_;
    if (!meta::Decode(value, &state)) return Damaged("its commit state is malformed");
    if (!environment_->read_only) state.serial = std::max(state.serial, state.serial_limit);
    return Status::Ok();
  }

  // Without a record it has followed the rules as they were when it was made.
  Status LoadRules() {
    std::string value;
    const rocksdb::Status status =
        shard_->db_->Get(rocksdb::ReadOptions(), meta::RulesKey(), &value);
    if (status.IsNotFound()) return Status::Ok();
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(status, "reading the retention rules of " + shard_->Name()));
    return meta::DecodeRules(value, &rules_version_)
               ? Status::Ok()
               : Damaged("the record of its retention rules is malformed");
  }

  // Databases that were made before it was noted have none.
  Status LoadClock() {
    std::string value;
    const rocksdb::Status status =
        shard_->db_->Get(rocksdb::ReadOptions(), meta::ClockKey(), &value);
    std::optional<LeapRecord> record;
    if (!status.IsNotFound()) {
      TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "reading the clock of " + shard_->Name()));
      if (!meta::Decode(value, &record.emplace())) return Damaged("its clock is malformed");
    }
    shard_->clock_.Restore(record, ReadClocks());
    return Status::Ok();
  }

  Status LoadDeletes() TOPICDB_REQUIRES(shard_->commit_mutex_) {
    std::vector<meta::DeleteRecord> deletes;
    const std::string prefix = meta::DeletePrefix();
    const std::unique_ptr<rocksdb::Iterator> records(
        shard_->db_->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      meta::DeleteRecord record;
      if (!meta::Decode(records->key().ToStringView(), records->value().ToStringView(), &record)) {
        return Damaged("the record of a delete is malformed");
      }
      deletes.push_back(std::move(record));
    }
    shard_->deletes_ = std::make_shared<const std::vector<meta::DeleteRecord>>(std::move(deletes));
    return rocks::FromRocks(records->status(), "reading deletes of " + shard_->Name());
  }

  Status LoadJobs() TOPICDB_REQUIRES(shard_->commit_mutex_) {
    meta::JobRecords jobs;
    const std::string prefix = meta::JobPrefix();
    const std::unique_ptr<rocksdb::Iterator> records(
        shard_->db_->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      meta::JobRecord& job = jobs[records->key().ToString().substr(prefix.size())];
      if (!meta::Decode(records->value().ToStringView(), &job)) {
        return Damaged("the record of a job is malformed");
      }
    }
    shard_->jobs_ = std::make_shared<const meta::JobRecords>(std::move(jobs));
    return rocks::FromRocks(records->status(), "reading jobs of " + shard_->Name());
  }

  Status LoadAppendIds() TOPICDB_REQUIRES(shard_->commit_mutex_) {
    const std::string prefix = meta::AppendIdPrefix();
    const std::unique_ptr<rocksdb::Iterator> records(
        shard_->db_->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      std::string id;
      KnownAppend known;
      if (!meta::Decode(records->key().ToStringView(), records->value().ToStringView(), &id,
                        &known)) {
        return Damaged("the record of an append's id is malformed");
      }
      shard_->append_ids_.Add(id, known);
    }
    return rocks::FromRocks(records->status(), "reading ids of appends of " + shard_->Name());
  }

  Status LoadSlabs() TOPICDB_REQUIRES(shard_->commit_mutex_) {
    std::vector<SlabView> slabs;
    std::vector<SlabId> dropping;
    const std::string prefix = meta::SlabPrefix();
    std::unique_ptr<rocksdb::Iterator> records(shard_->db_->NewIterator(rocksdb::ReadOptions()));
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      SlabId id{shard_->index_, 0, 0};
      meta::SlabRecord record;
      if (!meta::DecodeSlabKey(records->key().ToStringView(), &id) ||
          !meta::Decode(records->value().ToStringView(), &record) || !IsKnownClass(id)) {
        return Damaged("the record of a generation is malformed");
      }
      if (record.state == meta::SlabState::kDropping) {
        dropping.push_back(id);
        continue;
      }
      TOPICDB_ASSIGN_OR_RETURN(auto slab, LoadSlab(id, record));
      slabs.push_back(
          {std::move(slab), record.state == meta::SlabState::kReadOnly, record.sealed_at_us});
    }
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(records->status(), "reading generations of " + shard_->Name()));
    records.reset();
    if (!environment_->read_only) TOPICDB_RETURN_IF_ERROR(FinishDrops(dropping));
    families_.clear();
    return PublishSlabs(std::move(slabs));
  }

  // A reader may have read the classes before a writer changed them.
  bool IsKnownClass(const SlabId& id) TOPICDB_REQUIRES(shard_->commit_mutex_) {
    if (id.retention_class < shard_->rules_->ids_end()) return true;
    auto now = LoadRetention(environment_->database_path, environment_->schema.retention);
    if (!environment_->read_only || !now.ok()) return false;
    environment_->retention->Set(std::move(now).value());
    shard_->rules_ = environment_->rules();
    return id.retention_class < shard_->rules_->ids_end();
  }

  Result<std::shared_ptr<Slab>> LoadSlab(const SlabId& id, const meta::SlabRecord& record) {
    std::string value;
    TOPICDB_RETURN_IF_ERROR(Get(meta::CountersKey(id), "counters of a generation", &value));
    meta::SlabCounters counters;
    if (!meta::Decode(value, &counters)) return Damaged("counters of a generation are malformed");
    StructureTrie trie(environment_->learning);
    TOPICDB_RETURN_IF_ERROR(LoadTrie(id, &trie));
    auto made = Slab::Make(id, record, &families_, std::move(trie), counters);
    TOPICDB_RETURN_IF_ERROR(made.status().WithContext(shard_->Name()));
    const std::shared_ptr<Slab> slab = std::move(*made);
    if (!environment_->read_only && record.state == meta::SlabState::kCurrent) {
      TOPICDB_RETURN_IF_ERROR(
          slab->MutableSample()->Load(shard_->db_.get(), id).WithContext(shard_->Name()));
    }
    TOPICDB_RETURN_IF_ERROR(slab->layout()
                                .Restore({shard_->db_.get(), nullptr, slab->families()},
                                         environment_->read_only, slab->layout_state())
                                .WithContext(shard_->Name()));
    return slab;
  }

  Status LoadTrie(const SlabId& id, StructureTrie* trie) const {
    const std::string prefix = meta::NodePrefix(id);
    bool has_root = false;
    const std::unique_ptr<rocksdb::Iterator> nodes(
        shard_->db_->NewIterator(rocksdb::ReadOptions()));
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

  // Drops what no record speaks of (made ahead, or a crash while making it) and what is marked as
  // dropping.
  Status FinishDrops(const std::vector<SlabId>& dropping) TOPICDB_REQUIRES(shard_->commit_mutex_) {
    FamilyStock& stock = shard_->stock_;
    stock.Put(std::move(families_));
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(stock.Drop(shard_->db_.get()),
                                             "dropping a generation of " + shard_->Name()));
    if (dropping.empty()) return Status::Ok();
    rocksdb::WriteBatch batch;
    for (const SlabId& id : dropping) {
      TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch.Delete(meta::SlabKey(id)),
                                               "dropping a generation of " + shard_->Name()));
    }
    return shard_->Write(rocksdb::WriteOptions(), &batch);
  }

  // The first generation of each class.
  Status CreateSlabs() TOPICDB_REQUIRES(shard_->commit_mutex_) {
    return shard_->RotateClasses(shard_->rules_->ids());
  }

  // Each class must have one current generation; one that was added later may have yet to get it.
  Status PublishSlabs(std::vector<SlabView> slabs) TOPICDB_REQUIRES(shard_->commit_mutex_) {
    const RetentionRules& rules = *shard_->rules_;
    std::vector<int> current(rules.ids_end());
    std::vector<int> all(rules.ids_end());
    for (const SlabView& view : slabs) {
      const std::uint32_t id = view.slab->id().retention_class;
      ++all[id];
      if (!view.read_only) ++current[id];
    }
    for (std::uint32_t id = 0; id < rules.ids_end(); ++id) {
      const bool may_lack = all[id] == 0 && (id >= rules.reserved());
      if (current[id] == 1 || may_lack) continue;
      return Damaged("class '" + rules.FilterOf(id) + "' has " + std::to_string(current[id]) +
                     " current generations");
    }
    shard_->Publish(std::make_shared<const std::vector<SlabView>>(std::move(slabs)),
                    shard_->deletes_);
    if (environment_->read_only) return Status::Ok();
    // What ended while classes were changed may not have got to this shard, and nobody knows any
    // more what the classes were before.
    std::vector<std::uint32_t> changed;
    if (rules_version_ < rules.version()) changed = rules.ids();
    if (changed.empty() && shard_->MissingClasses().empty()) return Status::Ok();
    return shard_->BeginAnew(std::move(changed));
  }

  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::string directory_;
  // Declared first of the two, so that handles are given back before the shard closes RocksDB.
  const std::shared_ptr<Shard> shard_;
  FamiliesByName families_;
  std::uint64_t rules_version_ = 0;
};

Result<std::shared_ptr<Shard>> Shard::Open(std::shared_ptr<const ShardEnvironment> environment,
                                           std::uint32_t index, bool create) {
  if (!environment->read_only) return ShardOpener(environment, index).Run(create);
  // RocksDB reads the manifest first and the log after it. What a writer moved from its log to a
  // table file in between would be in neither, without an error; but the manifest has changed then.
  const std::string directory = DirectoryOf(environment->database_path, index);
  const auto deadline = std::chrono::steady_clock::now() + kReadOnlyPatience;
  for (int attempt = 1;; ++attempt) {
    const std::string before = rocks::StateOf(directory, rocks::StateFiles::kManifest);
    Result<std::shared_ptr<Shard>> shard = ShardOpener(environment, index).Run(create);
    const bool changed = rocks::StateOf(directory, rocks::StateFiles::kManifest) != before;
    if (shard.ok() && !changed) return shard;
    const bool futile = !changed && attempt >= kReadOnlyAttemptsUnchanged;
    if (futile || std::chrono::steady_clock::now() > deadline) {
      // What seems to be damaged may be a part that the writer was about to change.
      if (!shard.ok() && !changed) return shard;
      return StorageFault("shard " + std::to_string(index) + " of " + environment->database_path +
                          " is being changed too fast to be opened for reading; try again");
    }
    std::this_thread::sleep_for(kReadOnlyPause);
  }
}

}  // namespace topicdb
