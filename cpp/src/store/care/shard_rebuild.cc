#include "store/care/shard_rebuild.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/file/file_copy.h"
#include "base/file/files.h"
#include "rocks/local_log.h"
#include "rocks/rocks_compat.h"
#include "rocks/salvage.h"
#include "rocks/skipping_iterator.h"
#include "store/catalog/family_names.h"
#include "store/catalog/shard_records.h"
#include "store/slab/slab_write.h"

namespace topicdb {

namespace {

// Rows between two calls of the interrupt check.
constexpr std::uint64_t kStepRows = 16'384;
// At most this many commits may have been lost without any other trace. Their serials must not be
// used again.
constexpr std::uint64_t kSerialMargin = 1'000'000;

// Writes one shard anew. Without a salvage there is nothing to read, and the shard is empty. Not
// thread-safe; a call of RebuildShard or ReplaceShard owns it.
class ShardRebuild {
 public:
  ShardRebuild(const ShardEnvironment& environment, std::uint32_t shard, rocks::Salvage* salvage,
               std::string directory, const meta::JobRecords& jobs,
               const std::function<void(std::uint64_t)>& advance, const InterruptCheck& interrupted,
               const UsedNumbers& used = {})
      : environment_(environment),
        rules_(environment.rules()),
        shard_(shard),
        salvage_(salvage),
        directory_(std::move(directory)),
        jobs_(jobs),
        advance_(advance),
        interrupted_(interrupted),
        generation_used_(used.generation),
        serial_max_(used.serial) {}
  ~ShardRebuild() {
    slabs_.clear();
    families_.clear();
  }
  ShardRebuild(const ShardRebuild&) = delete;
  ShardRebuild& operator=(const ShardRebuild&) = delete;

  Result<RebuiltShard> Run() {
    TOPICDB_RETURN_IF_ERROR(ReadRecords());
    NoteLeaps();
    ChooseSlabs();
    TOPICDB_RETURN_IF_ERROR(AddMissingFamilies());
    TOPICDB_RETURN_IF_ERROR(Create());
    for (const auto& [id, record] : chosen_) TOPICDB_RETURN_IF_ERROR(RebuildSlab(id, record));
    TOPICDB_RETURN_IF_ERROR(WriteShardRecords());
    TOPICDB_RETURN_IF_ERROR(FlushAll());
    return std::move(report_);
  }

 private:
  Status ReadRecords() {
    if (salvage_ == nullptr) {
      records_.is_incomplete = true;
      report_.problems.push_back(
          {"its directory was gone, and all of its messages with it: it begins anew", shard_});
      return Status::Ok();
    }
    for (const rocks::LostFile& file : salvage_->lost()) NoteLost(file);
    TOPICDB_ASSIGN_OR_RETURN(records_, ReadShardRecords(*salvage_, shard_));
    for (std::string& problem : records_.problems) report_.problems.push_back({problem, shard_});
    return Status::Ok();
  }

  void NoteLost(const rocks::LostFile& file) {
    Problem problem{file.what, shard_};
    SlabId id{shard_, {}, {}};
    if (DecodeFamilyName(file.family, &id) && id.retention_class < rules_->ids_end()) {
      problem.slab = id;
      problem.retention_class = rules_->FilterOf(id.retention_class);
    }
    report_.problems.push_back(std::move(problem));
  }

  // Sets noted_ by the leaps of the clock, if these are known.
  void NoteLeaps() {
    LeapRecord clock;
    for (const auto& [key, value] : records_.kept) {
      if (key == meta::ClockKey() && meta::Decode(value, &clock))
        noted_ = NotedTimeOf(now_, clock.leaps);
    }
  }

  void Note(const SlabId& id, const std::string& what) {
    report_.problems.push_back({what, shard_, id, rules_->FilterOf(id.retention_class)});
  }

  // Returns the layout of a slab whose record is lost. The names of column families tell it. Those
  // of another layout may have been made ahead, and then are empty.
  LayoutKind LayoutOfLost(const SlabId& id) const {
    std::optional<LayoutKind> empty;
    for (const LayoutKind layout : {LayoutKind::kColumnar, LayoutKind::kSkipstream}) {
      for (const std::string& name : FamilyNames(layout, id)) {
        const auto family = salvage_->families().find(name);
        if (family == salvage_->families().end()) continue;
        rocks::SkippingIterator keys(salvage_->db(), nullptr, family->second);
        keys.Seek({});
        if (keys.Valid()) return layout;
        empty = layout;
      }
    }
    return empty.value_or(environment_.LayoutOfNew(id));
  }

  // Chooses the generations of the rebuilt shard. The last one of each class is current, and a new
  // one is added if that is read-only.
  void ChooseSlabs() {
    std::map<RetentionClassId, Generation> last;
    for (const auto& [id, slab] : records_.slabs) {
      if (id.retention_class >= rules_->ids_end()) {
        report_.problems.push_back({"the class with number " +
                                        std::to_string(id.retention_class.value()) +
                                        " is not known: its generation " +
                                        std::to_string(id.generation.value()) + " is left out",
                                    shard_});
        continue;
      }
      if (slab.record.has_value()) {
        chosen_[id] = *slab.record;
      } else {
        chosen_[id] = environment_.NewSlabRecord(id, LayoutOfLost(id), noted_);
        Note(id, "its record is lost: it counts as made just now");
      }
      last[id.retention_class] = std::max(last[id.retention_class], id.generation);
    }
    for (auto& [id, record] : chosen_) {
      const bool is_last = last[id.retention_class] == id.generation;
      if (is_last || record.state == meta::SlabState::kReadOnly) continue;
      record.state = meta::SlabState::kReadOnly;
      record.sealed_at = noted_;
    }
    Serial now = records_.state.value_or(meta::CommitState{}).serial;
    for (const auto& [id, record] : chosen_) now = std::max(now, record.begun_at);
    for (const RetentionClassId retention_class : rules_->ids()) {
      const auto found = last.find(retention_class);
      const Generation generation = found == last.end() ? generation_used_ : found->second;
      const auto newest = chosen_.find({shard_, retention_class, generation});
      const bool has_current =
          newest != chosen_.end() && newest->second.state == meta::SlabState::kCurrent;
      const SlabId id{shard_, retention_class, generation.Next()};
      if (has_current) continue;
      std::optional<LayoutKind> before;
      if (newest != chosen_.end()) before = newest->second.layout;
      chosen_[id] = environment_.NewSlabRecord(id, environment_.LayoutOfNew(id, before), noted_);
      chosen_[id].begun_at = now;
    }
  }

  // Adds empty families for those that are lost, so that RebuildSlab can read them.
  Status AddMissingFamilies() {
    if (salvage_ == nullptr) return Status::Ok();
    std::vector<std::string> missing;
    for (const auto& [id, record] : chosen_) {
      for (const std::string& name : FamilyNames(record.layout, id)) {
        const bool is_there = salvage_->families().contains(name);
        if (!is_there) missing.push_back(name);
        const bool is_incomplete =
            (!is_there && records_.slabs.contains(id)) || salvage_->MayLack(name);
        if (is_incomplete) incomplete_.insert(id);
      }
    }
    return missing.empty() ? Status::Ok() : salvage_->AddFamilies(missing);
  }

  Status Create() {
    const rocks::SharedResources& resources = environment_.resources;
    rocksdb::DBOptions options = rocks::MakeDbOptions(resources, /*read_only=*/false);
    options.create_missing_column_families = true;
    std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName};
    for (const auto& [id, record] : chosen_) {
      for (std::string& name : FamilyNames(record.layout, id)) names.push_back(std::move(name));
    }
    rocks::Families families;
    for (const std::string& name : names) {
      families.emplace_back(name, rocks::FamilyOptions(resources, FamilyUseOf(name)));
    }
    rocks::FamilyHandles handles;
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
        rocks::Open(options, directory_, families, &handles, &db_), "creating " + directory_));
    log_ = std::make_unique<rocks::LocalLog>(db_.get(), directory_);
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      families_[handle->GetName()] = std::make_shared<FamilyHandle>(db_.get(), handle);
    }
    return Status::Ok();
  }

  Result<std::shared_ptr<Slab>> MakeSlab(const SlabId& id, const meta::SlabRecord& record) {
    StructureTrie trie(environment_.learning);
    rocksdb::WriteBatch batch;
    TOPICDB_RETURN_IF_ERROR(RestoreTrie(id, &trie, &batch));
    rocksdb::Status status = batch.Put(meta::SlabKey(id), meta::Encode(record));
    if (status.ok()) status = batch.Put(meta::CountersKey(id), meta::Encode(meta::SlabCounters{}));
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "making a generation"));
    TOPICDB_RETURN_IF_ERROR(Write(&batch));
    return Slab::Make(id, record, &families_, std::move(trie), {});
  }

  // Restores the nodes up to the first one that is missing or damaged. They keep their numbers, and
  // so do their streams.
  Status RestoreTrie(const SlabId& id, StructureTrie* trie, rocksdb::WriteBatch* batch) {
    NodeRecord root{kRootNode, kNoNode, NodeKind::kWord, false, {}};
    const auto& hints = environment_.schema.structures;
    root.all_vary =
        !environment_.IsReserved(id) && std::find(hints.begin(), hints.end(), "#") != hints.end();
    const auto slab = records_.slabs.find(id);
    std::map<NodeId, NodeRecord> nodes;
    if (slab != records_.slabs.end()) nodes = slab->second.nodes;
    nodes.emplace(kRootNode, root);
    rocksdb::Status status;
    for (const auto& [number, node] : nodes) {
      const Status restored = trie->Restore(node);
      if (!restored.ok()) {
        Note(id, "structures from " + restored.message() +
                     " on are learned anew: streams and iterators of them may be others");
        break;
      }
      if (status.ok()) status = batch->Put(meta::NodeKey(id, number), meta::Encode(node));
    }
    return rocks::FromRocks(status, "preparing structures");
  }

  Status RebuildSlab(const SlabId& id, const meta::SlabRecord& record) {
    TOPICDB_ASSIGN_OR_RETURN(auto slab, MakeSlab(id, record));
    slabs_.push_back(slab);
    const auto found = records_.slabs.find(id);
    if (found == records_.slabs.end()) return Status::Ok();  // a new one
    const SalvagedSlab& salvaged = found->second;
    SlabWrite rebuild(db_.get(), log_.get(), environment_.seal_limits, slab.get());
    SlabSalvage call;
    call.is_incomplete = incomplete_.contains(id);
    call.structure_of = [&](StreamId stream) { return salvaged.StructureOf(stream); };
    call.report = [&](Finding finding) { Report(id, salvaged, std::move(finding)); };
    call.take = [&](const SalvagedRow& row) {
      ++report_.messages;
      if (report_.messages % kStepRows == 0) {
        if (interrupted_ && interrupted_()) return Interrupted();
        if (advance_) advance_(kStepRows);
      }
      return rebuild.Take(row);
    };
    const std::vector<std::string> names = FamilyNames(record.layout, id);
    const SlabFamilies families{salvage_->families().at(names.front()),
                                names.size() > 1 ? salvage_->families().at(names.back()) : nullptr};
    TOPICDB_RETURN_IF_ERROR(slab->layout().Salvage({salvage_->db(), nullptr, families}, call));
    TOPICDB_RETURN_IF_ERROR(rebuild.Finish(record.state == meta::SlabState::kReadOnly));
    TOPICDB_RETURN_IF_ERROR(WriteRecords(rebuild));
    serial_max_ = std::max(serial_max_, rebuild.serial_max());
    CompareCounters(*slab, salvaged);
    return Status::Ok();
  }

  Status WriteRecords(const SlabWrite& rebuild) {
    rocksdb::WriteBatch batch;
    rocksdb::Status status = rebuild.PutRecords(&batch);
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "writing the records of a generation"));
    return Write(&batch);
  }

  void Report(const SlabId& id, const SalvagedSlab& salvaged, Finding finding) {
    Problem problem{std::move(finding.what), shard_, id, rules_->FilterOf(id.retention_class)};
    problem.messages = finding.messages;
    problem.times = finding.times;
    for (const StreamId stream : finding.streams) {
      const auto structure = salvaged.StructureOf(stream);
      if (structure.has_value()) problem.structures.push_back(structure->Text());
    }
    lost_[id] += problem.messages;
    if (!finding.is_counted) incomplete_.insert(id);
    report_.problems.push_back(std::move(problem));
  }

  // Reports messages that are lost without any other trace than the counters of the slab.
  void CompareCounters(const Slab& slab, const SalvagedSlab& salvaged) {
    const bool may_lack = incomplete_.contains(slab.id()) || records_.is_incomplete;
    if (!may_lack) return;
    if (!salvaged.counters.has_value()) {
      return Note(slab.id(), "how many messages it had is lost");
    }
    const std::uint64_t known = slab.CountersForCommit().messages + lost_[slab.id()];
    if (known >= salvaged.counters->messages) return;
    Note(slab.id(),
         "messages that nothing else tells of: so many more were written, by its "
         "counters; deleted and replaced ones are among them");
    Problem& problem = report_.problems.back();
    problem.messages = salvaged.counters->messages - known;
    problem.times = {salvaged.counters->first_timestamp, salvaged.counters->last_timestamp};
  }

  Status WriteShardRecords() {
    meta::CommitState state = records_.state.value_or(meta::CommitState{});
    if (!records_.state.has_value()) {
      state.assigned_timestamp = TimestampAt(now_);
      state.serial = serial_max_.Next(kSerialMargin);
      report_.problems.push_back({"the number of its last commit is lost: it goes on with " +
                                      std::to_string(state.serial.Next().value()),
                                  shard_});
    }
    state.serial = std::max({state.serial, state.serial_limit, serial_max_});
    const bool has_lost_commits = salvage_ != nullptr && salvage_->has_lost_commits();
    if (has_lost_commits) state.serial = state.serial.Next(kSerialMargin);
    state.serial_limit = state.serial;
    rocksdb::WriteBatch batch;
    rocksdb::Status status =
        batch.Put(meta::IdentityKey(), meta::Encode(meta::Identity{environment_.database, shard_}));
    if (status.ok()) status = batch.Put(meta::CommitStateKey(), meta::Encode(state));
    if (records_.is_incomplete) {
      // Without these records, readers would not see the messages of these jobs in other shards,
      // because the jobs would count as not applied everywhere yet.
      for (const auto& [name, job] : jobs_) {
        if (status.ok()) status = batch.Put(meta::JobKey(name), meta::Encode(job));
      }
    }
    for (const auto& [key, value] : records_.kept) {
      if (status.ok()) status = batch.Put(key, value);
    }
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "writing the records of a shard"));
    return Write(&batch);
  }

  // Writes without the log, because FlushAll moves everything to files before anybody sees the
  // shard.
  Status Write(rocksdb::WriteBatch* batch) {
    return log_->Write({rocks::EntryKind::kGeneration, rocks::EntryDurability::kMemory}, batch);
  }

  Status FlushAll() {
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    for (const auto& slab : slabs_) {
      for (rocksdb::ColumnFamilyHandle* handle : slab->all_families()) handles.push_back(handle);
    }
    handles.push_back(families_.at(rocksdb::kDefaultColumnFamilyName)->get());
    const rocksdb::FlushOptions options;
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(db_->Flush(options, handles), "flushing " + directory_));
    handles.clear();
    slabs_.clear();
    families_.clear();
    return rocks::FromRocks(db_->Close(), "closing " + directory_);
  }

  const ShardEnvironment& environment_;
  const std::shared_ptr<const RetentionRules> rules_;
  const std::uint32_t shard_;
  rocks::Salvage* const salvage_;
  const std::string directory_;
  const meta::JobRecords& jobs_;
  const std::function<void(std::uint64_t)>& advance_;
  const InterruptCheck& interrupted_;
  const Generation generation_used_;  // by classes of which nothing else tells
  const WallTime now_ = ReadWallClock();
  NotedTime noted_ = NotedTimeOf(now_, {});  // the present, as records of generations note it

  ShardRecords records_;
  std::map<SlabId, meta::SlabRecord> chosen_;
  std::set<SlabId> incomplete_;  // tables of them are lost
  std::map<SlabId, std::uint64_t> lost_;
  RebuiltShard report_;
  Serial serial_max_;  // that was used

  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<rocks::ShardLog> log_;
  FamiliesByName families_;  // that no slab has yet
  std::vector<std::shared_ptr<Slab>> slabs_;
};

}  // namespace

Result<RebuiltShard> RebuildShard(const ShardEnvironment& environment, std::uint32_t shard,
                                  const std::string& damaged, const std::string& scratch,
                                  const std::string& rebuilt, const meta::JobRecords& jobs,
                                  const std::function<void(std::uint64_t)>& advance,
                                  const InterruptCheck& interrupted) {
  Result<RebuiltShard> report = [&]() -> Result<RebuiltShard> {
    TOPICDB_ASSIGN_OR_RETURN(const auto salvage,
                             rocks::Salvage::Open(damaged, scratch, environment.resources));
    return ShardRebuild(environment, shard, salvage.get(), rebuilt, jobs, advance, interrupted)
        .Run();
  }();
  TOPICDB_RETURN_IF_ERROR(RemoveTree(scratch));
  TOPICDB_RETURN_IF_ERROR(report.status());
  TOPICDB_RETURN_IF_ERROR(SyncTree(rebuilt));
  return report;
}

Result<RebuiltShard> ReplaceShard(const ShardEnvironment& environment, std::uint32_t shard,
                                  const std::string& rebuilt, const meta::JobRecords& jobs,
                                  const UsedNumbers& used) {
  const std::function<void(std::uint64_t)> nobody_asks;
  const InterruptCheck never;
  TOPICDB_ASSIGN_OR_RETURN(
      RebuiltShard report,
      ShardRebuild(environment, shard, /*salvage=*/nullptr, rebuilt, jobs, nobody_asks, never, used)
          .Run());
  TOPICDB_RETURN_IF_ERROR(SyncTree(rebuilt));
  return report;
}

}  // namespace topicdb
