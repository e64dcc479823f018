#include "store/shard/shard.h"

#include <algorithm>
#include <array>

#include <rocksdb/convenience.h>

#include "rocks/rocks_compat.h"
#include "structure/structure_learner.h"

namespace topicdb {

namespace {

// Of all shards of a database.
constexpr std::size_t kTopicCacheBytes = std::size_t{32} << 20;

// One call to RocksDB that makes or drops families does it for so large a part of all slabs.
constexpr std::size_t kFamilyCallPart = 128;  // 1 / 128

}  // namespace

Shard::Shard(std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index)
    : environment_(std::move(environment)),
      index_(index),
      rules_(environment_->rules()),
      stock_(environment_->resources),
      topics_(kTopicCacheBytes / std::max<std::size_t>(environment_->schema.shards, 1)),
      memory_(environment_->commit.conflict_entries_max),
      queue_([this](std::span<ShardCommit* const> group) { CommitGroup(group); },
             [this] { return SyncLog(); }, environment_->commit) {}

Shard::~Shard() { Close().IgnoreError(); }

std::string Shard::DirectoryOf(const std::string& database_path, std::uint32_t index) {
  std::string number = std::to_string(index);
  number.insert(0, 4 - std::min<std::size_t>(4, number.size()), '0');
  return database_path + "/shards/" + number;
}

std::string Shard::Name() const {
  return "shard " + std::to_string(index_) + " of " + environment_->database_path;
}

std::shared_ptr<const ShardView> Shard::view() const {
  const MutexLock lock(view_mutex_);
  return view_;
}

bool Shard::Publish(SlabViews slabs, DeleteRecords deletes) {
  if (slabs != slabs_) TakeSlabs(std::move(slabs));  // else it is one of many commits
  deletes_ = std::move(deletes);
  const rocksdb::Snapshot* snapshot = environment_->read_only ? nullptr : db_->GetSnapshot();
  auto view =
      std::make_shared<const ShardView>(environment_, db_.get(), snapshot, lists_, deletes_, jobs_,
                                        state_.serial, deletes_version_, removals_version_);
  bool has_transactions = false;
  {
    const MutexLock lock(view_mutex_);
    view_.swap(view);
    has_transactions = open_transactions_ > 0;
  }
  environment_->commits->Notify();
  environment_->readers->Expire();
  return has_transactions;
}

void Shard::TakeSlabs(SlabViews slabs) {
  slabs_ = std::move(slabs);
  current_.assign(rules_->ids_end(), {});
  lists_ = ListSlabs(slabs_);
  for (const SlabView& view : *lists_.current) current_[view.slab->id().retention_class] = view;
  older_copies_.Reset(*slabs_, rules_);
}

const SlabView* Shard::CurrentSlab(std::uint32_t retention_class) const {
  return &current_[retention_class];
}

Status Shard::CheckWritable() const {
  if (environment_->read_only) {
    return ReadOnly(environment_->database_path + " was opened with mode='r'");
  }
  return poison_;
}

Status Shard::Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch) {
  const Status status =
      rocks::FromRocks(log_chain_.Write(db_.get(), options, batch), "writing " + Name());
  if (!status.ok()) Poison(status);
  return status;
}

void Shard::Poison(const Status& status) {
  if (!poison_.ok()) return;
  poison_ = StorageFault(Name() + " takes no more writes since one failed; close and reopen it (" +
                         status.message() + ")");
}

// Hints; and what the generation before tells: the structures of its topics, learned anew, or,
// where that is not wanted or it had no topics, those that it had learned.
Status Shard::SeedStructures(bool reserved, const Slab* previous, StructureEdit* edit,
                             rocksdb::WriteBatch* batch) {
  static const std::vector<std::string> kReservedHints{
      "$topicdb/map/+/+",          "$topicdb/owner/+",         "$topicdb/consumer/+/state",
      "$topicdb/consumer/+/fence", "$topicdb/consumer/+/at/+", "$topicdb/group/+/state",
      "$topicdb/group/+/fence",    "$topicdb/group/+/at/+",    "$topicdb/session/+/state"};
  for (const std::string& hint : reserved ? kReservedHints : environment_->schema.structures) {
    TOPICDB_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(hint));
    edit->SeedHint(filter);
  }
  if (previous == nullptr) return Status::Ok();
  const Learning& learning = environment_->learning;
  std::vector<Structure> structures;
  if (learning.adaptive && !reserved) {
    TOPICDB_ASSIGN_OR_RETURN(const auto topics, TopicSample::ReadTopics(db_.get(), previous->id()));
    const std::vector<std::string_view> views(topics.begin(), topics.end());
    // Half of the budget, so that there is room for what is new.
    structures = LearnStructures(views, learning.streams_max / 2);
  }
  // Nobody learns from it again; there may be one even if the learner is now another.
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
      batch->DeleteRange(meta::SampleLevelKey(previous->id()), meta::SampleEnd(previous->id())),
      "preparing a generation of " + Name()));
  if (structures.empty()) {
    const StructureTrie& trie = previous->TrieForCommit();
    trie.ForEachStream([&](NodeId stream) {
      Structure structure = trie.StructureOf(stream);
      if (!structure.levels.empty() && structure.VaryingCount() > 0) {
        structures.push_back(std::move(structure));
      }
    });
  }
  for (const Structure& structure : structures) edit->SeedStructure(structure);
  return Status::Ok();
}

Result<std::shared_ptr<Slab>> Shard::CreateSlab(const SlabId& id, const meta::SlabRecord& record,
                                                const Slab* previous, FamiliesByName* families,
                                                rocksdb::WriteBatch* batch) {
  StructureTrie trie(environment_->learning);
  StructureEdit edit(trie);
  TOPICDB_RETURN_IF_ERROR(SeedStructures(environment_->IsReserved(id), previous, &edit, batch));
  const NodeRecord root{kRootNode, kNoNode, NodeKind::kWord, edit.root_all_vary(), {}};
  rocksdb::Status status = batch->Put(meta::NodeKey(id, kRootNode), meta::Encode(root));
  for (const NodeRecord& node : edit.nodes()) {
    if (status.ok()) status = batch->Put(meta::NodeKey(id, node.id), meta::Encode(node));
  }
  if (status.ok()) status = batch->Put(meta::SlabKey(id), meta::Encode(record));
  if (status.ok()) status = batch->Put(meta::CountersKey(id), meta::Encode(meta::SlabCounters{}));
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "preparing a generation of " + Name()));
  trie.Apply(edit);

  return Slab::Make(id, record, families, std::move(trie), {});
}

std::size_t Shard::SlabsAtOnce() const {
  return slabs_ == nullptr ? 0 : slabs_->size() / kFamilyCallPart;
}

Result<FamiliesByName> Shard::CreateFamilies(const std::vector<SlabId>& slabs, std::size_t ahead) {
  std::vector<std::string> names;
  std::vector<std::string> names_ahead;
  const auto add = [&](const SlabId& id, std::vector<std::string>* to) {
    for (std::string& name : environment_->FamilyNamesOf(id)) to->push_back(std::move(name));
  };
  for (SlabId id : slabs) {
    add(id, &names);
    for (std::size_t i = 0; i < ahead; ++i) {
      id.generation += GenerationStep(id.retention_class);
      add(id, &names_ahead);
    }
  }
  FamiliesByName families;
  const rocksdb::Status status = stock_.Take(db_.get(), names, names_ahead, &families);
  if (status.ok()) return families;
  const Status fault = rocks::FromRocks(status, "creating a generation of " + Name());
  Poison(fault);
  return fault;
}

Status Shard::Rotate(std::optional<std::uint32_t> retention_class,
                     std::optional<std::int64_t> as_if_us, bool resets_clock) {
  const MutexLock lock(commit_mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  std::vector<std::uint32_t> classes;
  if (retention_class.has_value()) {
    classes.push_back(*retention_class);
  } else {
    for (const RetentionRule& rule : rules_->live()) classes.push_back(rule.id);
  }
  return RotateClasses(classes, as_if_us, resets_clock);
}

Result<std::optional<LeapRecord>> Shard::PutClock(rocksdb::WriteBatch* batch) const {
  if (!clock_.IsChanged()) return std::optional<LeapRecord>();
  const LeapRecord record = clock_.record();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch->Put(meta::ClockKey(), meta::Encode(record)),
                                           "noting the clock of " + Name()));
  return std::optional(record);
}

Status Shard::SaveClock() {
  const MutexLock lock(commit_mutex_);
  if (!CheckWritable().ok()) return Status::Ok();
  clock_.Look();
  rocksdb::WriteBatch batch;
  TOPICDB_ASSIGN_OR_RETURN(const auto saved, PutClock(&batch));
  if (!saved.has_value()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(Write(rocksdb::WriteOptions(), &batch));
  clock_.NoteSaved(*saved);
  return Status::Ok();
}

std::vector<std::uint32_t> Shard::MissingClasses() const {
  std::vector<std::uint32_t> missing = rules_->ids();
  for (const SlabView& view : *slabs_) std::erase(missing, view.slab->id().retention_class);
  return missing;
}

bool Shard::KeepsLast(std::uint32_t retention_class) const {
  const RetentionRule* rule = rules_->Find(retention_class);
  return rule != nullptr && rule->limits.keep_last > 0;
}

std::uint32_t Shard::GenerationStep(std::uint32_t retention_class) const {
  return KeepsLast(retention_class) ? 2 : 1;
}

Status Shard::Adopt(std::shared_ptr<const RetentionRules> rules) {
  const MutexLock lock(commit_mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  const auto before = std::exchange(rules_, std::move(rules));
  std::vector<std::uint32_t> classes = rules_->ChangedSince(*before);
  for (const std::uint32_t id : before->ids()) {
    // Until now there was no number left free behind it.
    if (KeepsLast(id) && before->Find(id)->limits.keep_last == 0) classes.push_back(id);
  }
  const Status status = BeginAnew(std::move(classes));
  if (!status.ok()) rules_ = before;
  return status;
}

Status Shard::BeginAnew(std::vector<std::uint32_t> classes) {
  std::vector<std::uint32_t> begin_again;
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  std::erase_if(classes, [&](std::uint32_t id) TOPICDB_REQUIRES(commit_mutex_) {
    const bool has_none = id >= current_.size() || CurrentSlab(id)->slab == nullptr;
    if (has_none) return true;  // one that is missing begins now, whatever it is
    const Slab& slab = *CurrentSlab(id)->slab;
    if (slab.CountersForCommit().messages > 0) return false;
    if (slab.begun_at() != state_.serial) begin_again.push_back(id);
    return true;
  });
  for (const std::uint32_t id : MissingClasses()) classes.push_back(id);
  return RotateClasses(classes, std::nullopt, /*resets_clock=*/false, begin_again);
}

Status Shard::EnsureReservedSlab() {
  const MutexLock lock(commit_mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  const std::uint32_t reserved = rules_->reserved();
  if (CurrentSlab(reserved)->slab != nullptr) return Status::Ok();
  return RotateClasses(std::array{reserved});
}

// A column family that was made here without its record being written is dropped at the next open.
Status Shard::RotateClasses(std::span<const std::uint32_t> classes,
                            std::optional<std::int64_t> as_if_us, bool resets_clock,
                            std::span<const std::uint32_t> begin_again) {
  const LeapClock::Times times = clock_.Look();
  const std::int64_t now_us = as_if_us.has_value() ? *as_if_us - times.leaps_us : times.NotedUs();
  rocksdb::WriteBatch batch;
  auto slabs = slabs_ ? *slabs_ : std::vector<SlabView>();
  std::vector<SlabId> ids;
  std::vector<const Slab*> before;
  std::vector<std::int64_t> began_us;
  for (const std::uint32_t retention_class : classes) {
    ids.push_back({index_, retention_class, 1});
    before.push_back(nullptr);
    began_us.push_back(now_us);
    for (SlabView& view : slabs) {
      if (view.read_only || view.slab->id().retention_class != retention_class) continue;
      before.back() = view.slab.get();
      ids.back().generation = view.slab->id().generation + GenerationStep(retention_class);
      meta::SlabRecord record = view.slab->record();
      // Who tries out what would be done at another time does not make it older than it is.
      if (as_if_us.has_value()) began_us.back() = std::max(now_us, record.created_at_us);
      view.read_only = true;
      view.sealed_at_us = began_us.back();
      record.state = meta::SlabState::kReadOnly;
      record.sealed_at_us = began_us.back();
      TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
          batch.Put(meta::SlabKey(view.slab->id()), meta::Encode(record)), "sealing " + Name()));
    }
  }
  const std::size_t ahead = SlabsAtOnce() / std::max<std::size_t>(ids.size(), 1);
  TOPICDB_ASSIGN_OR_RETURN(FamiliesByName families, CreateFamilies(ids, ahead));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    meta::SlabRecord record = environment_->NewSlabRecord(ids[i], began_us[i]);
    record.begun_at = state_.serial;
    TOPICDB_ASSIGN_OR_RETURN(auto slab, CreateSlab(ids[i], record, before[i], &families, &batch));
    slabs.insert(PlaceOf(ids[i], slabs), {std::move(slab), false, 0});
  }
  meta::CommitState after = state_;
  rocksdb::Status status = batch.Put(meta::RulesKey(), meta::EncodeRules(rules_->version()));
  if (resets_clock && status.ok()) {
    after.clock_us = meta::CommitState().clock_us;
    status = batch.Put(meta::CommitStateKey(), meta::Encode(after));
  }
  for (const std::uint32_t id : begin_again) {
    const Slab& slab = *CurrentSlab(id)->slab;
    meta::SlabRecord record = slab.record();
    record.begun_at = state_.serial;
    if (status.ok()) status = batch.Put(meta::SlabKey(slab.id()), meta::Encode(record));
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "rotating " + Name()));
  TOPICDB_ASSIGN_OR_RETURN(const auto saved, PutClock(&batch));
  rocksdb::WriteOptions options;
  options.sync = true;
  TOPICDB_RETURN_IF_ERROR(Write(options, &batch));
  if (saved.has_value()) clock_.NoteSaved(*saved);
  state_ = after;
  for (const std::uint32_t id : begin_again) CurrentSlab(id)->slab->BeginAgain(state_.serial);
  topics_.Clear();
  Publish(std::make_shared<const std::vector<SlabView>>(std::move(slabs)), deletes_);
  environment_->sealer->Wake(this);
  return Status::Ok();
}

Status Shard::Flush() {
  if (environment_->read_only) return Status::Ok();
  const MutexLock lock(commit_mutex_);
  const Status status = FlushFamilies(*slabs_, /*wait=*/true);
  if (!poison_.ok()) return poison_;
  TOPICDB_RETURN_IF_ERROR(status);
  unlogged_serial_ = 0;
  return Status::Ok();
}

Status Shard::FlushFamilies(const std::vector<SlabView>& slabs, bool wait) {
  flushed_bytes_ = log_chain_.bytes();
  std::vector<rocksdb::ColumnFamilyHandle*> families{default_family_->get()};
  for (const SlabView& view : slabs) {
    for (rocksdb::ColumnFamilyHandle* family : view.slab->all_families())
      families.push_back(family);
  }
  rocksdb::FlushOptions options;
  options.wait = wait;
  options.allow_write_stall = true;  // or it waits for a moment at which it stalls nobody
  return rocks::FromRocks(db_->Flush(options, families), "flushing " + Name());
}

ShardStats Shard::Stats() const {
  const MutexLock lock(commit_mutex_);
  ShardStats stats;
  stats.shard = index_;
  stats.serial = state_.serial;
  stats.clock_us = std::max<std::int64_t>(state_.clock_us, 0);
  const LeapClock::Times times = clock_.Look();
  stats.clock_ahead_us = std::max<std::int64_t>(state_.clock_us - times.timestamp_us, 0);
  stats.clock_held_us = times.wall_us - times.timestamp_us;
  for (const SlabView& view : *slabs_) {
    const SlabInfo info = view.slab->Info({});
    stats.messages += info.messages;
    stats.bytes += info.bytes;
    stats.streams += info.streams;
    stats.structure_bytes += view.slab->structure_bytes();
    stats.fresh_blocks += view.slab->layout_state()->fresh_blocks;
    stats.fresh_bytes += view.slab->layout_state()->fresh_bytes;
    stats.sealed_bytes += view.slab->layout_state()->sealed_bytes;
    stats.resealed_bytes += view.slab->layout_state()->resealed_bytes;
    stats.reads.Add(view.slab->reads());
    ++stats.slabs;
  }
  stats.is_sealing = environment_->sealer->IsBusyWith(this);
  if (!sealing_status_.ok()) stats.sealing_error = sealing_status_.message();
  stats.disk_bytes = Property("rocksdb.live-sst-files-size");
  stats.memory_bytes =
      Property("rocksdb.cur-size-all-mem-tables") + Property("rocksdb.estimate-table-readers-mem");
  return stats;
}

std::uint64_t Shard::Property(const char* name) const {
  std::uint64_t value = 0;
  return db_->GetAggregatedIntProperty(name, &value) ? value : 0;
}

// Says that every serial in use is known, so that numbering goes on without a gap.
Status Shard::SaveCleanState() {
  if (environment_->read_only || !poison_.ok()) return Status::Ok();
  rocksdb::WriteBatch batch;
  TOPICDB_RETURN_IF_ERROR(PutClock(&batch).status());
  if (state_.serial_limit != state_.serial) {
    state_.serial_limit = state_.serial;
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
        batch.Put(meta::CommitStateKey(), meta::Encode(state_)), "closing " + Name()));
  }
  return batch.Count() == 0 ? Status::Ok() : Write(rocksdb::WriteOptions(), &batch);
}

Status Shard::Close() {
  if (db_ == nullptr) return Status::Ok();
  queue_.Close();
  Status status;
  const bool complete = view() != nullptr;  // Open succeeded
  environment_->sealer->Forget(this);
  if (complete && HasMuchFresh()) SealAll().IgnoreError();  // it would only be smaller
  if (complete) {
    const MutexLock lock(commit_mutex_);
    status = SaveCleanState();
    if (status.ok() && poison_.ok()) status = DropLeaving();
    if (status.ok() && poison_.ok()) {
      status = rocks::FromRocks(stock_.Drop(db_.get()), "dropping unused families of " + Name());
    }
  }
  if (complete && status.ok()) status = Flush();
  if (complete && status.ok()) status = RemoveGarbage(GarbageScope::kQuick, nullptr);
  rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/true);
  {
    const MutexLock lock(view_mutex_);
    view_.reset();
  }
  {
    const MutexLock lock(commit_mutex_);
    slabs_.reset();
    current_.clear();
    lists_ = {};
    stock_.Clear();
    leaving_.clear();
    older_copies_ = OlderCopies();
  }
  default_family_.reset();
  const Status closed = rocks::FromRocks(db_->Close(), "closing " + Name());
  db_.reset();
  lock_.reset();
  return status.ok() ? closed : status;
}

}  // namespace topicdb
