#include "store/shard/shard.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "rocks/files/file_state.h"
#include "rocks/rocks_compat.h"

namespace topicdb {

namespace {

// A writer may remove files, or make and drop column families, while a reader opens.
constexpr std::chrono::seconds kReadOnlyPatience(10);
constexpr int kReadOnlyAttemptsUnchanged = 5;
constexpr std::chrono::milliseconds kReadOnlyPause(10);

Code CodeOf(const Status& status) { return status.code(); }
template <typename Value>
Code CodeOf(const Result<Value>& result) {
  return result.status().code();
}

// Does something here if this replica leads, and else at the one that does. Begins anew as long as
// the leader changes in between.
template <typename Here, typename AtLeader>
auto WhereLed(const Shard& shard, ShardLeader* leader, Here here, AtLeader at_leader)
    -> decltype(here()) {
  if (leader == nullptr) return here();
  const auto deadline = ShardLeader::Clock::now() + leader->patience();
  for (;;) {
    if (shard.MayWrite().ok()) {
      auto done = here();
      if (CodeOf(done) != Code::kNotLeader) return done;
    }
    auto done = at_leader(leader, deadline);
    const bool is_over = ShardLeader::Clock::now() >= deadline;
    if (CodeOf(done) != Code::kNotLeader || is_over) return done;
  }
}

}  // namespace

Shard::Shard(std::unique_ptr<ShardState> state)
    : state_(std::move(state)),
      disk_(*state_),
      garbage_(*state_, disk_),
      sealing_(*state_),
      transactions_(*state_),
      deletes_(*state_, sealing_),
      jobs_(*state_),
      staging_(*state_),
      maker_(*state_),
      dropper_(*state_, disk_, transactions_),
      generations_(*state_, sealing_, transactions_, maker_),
      merger_(*state_, merge_deletes_, maker_, dropper_),
      replay_(*state_, disk_),
      committer_({*state_, disk_, sealing_, transactions_, merge_deletes_, jobs_}) {}

Shard::~Shard() { Close().IgnoreError(); }

Result<std::shared_ptr<Shard>> Shard::Open(std::shared_ptr<const ShardEnvironment> environment,
                                           std::uint32_t index, bool create) {
  const auto open_once = [&]() -> Result<std::shared_ptr<Shard>> {
    TOPICDB_ASSIGN_OR_RETURN(
        LoadedShard loaded,
        LoadShard(environment, index, create ? ShardUse::kCreate : ShardUse::kWrite));
    const std::shared_ptr<Shard> shard(new Shard(std::move(loaded.state)));
    TOPICDB_RETURN_IF_ERROR(shard->Begin(std::move(loaded)));
    return shard;
  };
  if (!environment->read_only) return open_once();
  // RocksDB reads the manifest first and the log after it. What a writer moved from its log to a
  // table file in between would be in neither, without an error; but the manifest has changed then.
  const std::string directory = ShardDirectory(environment->directory, index);
  const auto deadline = std::chrono::steady_clock::now() + kReadOnlyPatience;
  for (int attempt = 1;; ++attempt) {
    const std::string before = rocks::StateOf(directory, rocks::StateFiles::kManifest);
    Result<std::shared_ptr<Shard>> shard = open_once();
    const bool changed = rocks::StateOf(directory, rocks::StateFiles::kManifest) != before;
    if (shard.ok() && !changed) return shard;
    const bool futile = !changed && attempt >= kReadOnlyAttemptsUnchanged;
    if (futile || std::chrono::steady_clock::now() > deadline) {
      // What seems to be damage may be a file that the writer was changing.
      if (!shard.ok() && !changed) return shard;
      return StorageFault(environment->NameOfShard(index) +
                          " is being changed too fast to be opened for reading; try again");
    }
    std::this_thread::sleep_for(kReadOnlyPause);
  }
}

Result<std::shared_ptr<Shard>> Shard::OpenToFollow(
    std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index) {
  TOPICDB_ASSIGN_OR_RETURN(LoadedShard loaded, LoadShard(environment, index, ShardUse::kFollow));
  const std::shared_ptr<Shard> shard(new Shard(std::move(loaded.state)));
  const MutexLock lock(shard->state_->mutex);
  shard->state_->Publish(std::make_shared<const std::vector<SlabView>>(std::move(loaded.slabs)),
                         shard->state_->deletes);
  return shard;
}

Status Shard::Begin(LoadedShard loaded) {
  {
    const MutexLock lock(state_->mutex);
    if (state_->environment->read_only) {
      TOPICDB_RETURN_IF_ERROR(CheckCurrent(loaded.slabs));
      state_->Publish(std::make_shared<const std::vector<SlabView>>(std::move(loaded.slabs)),
                      state_->deletes);
      return Status::Ok();
    }
    TOPICDB_RETURN_IF_ERROR(BeginToWrite(std::move(loaded.writer), std::move(loaded.slabs)));
  }
  TOPICDB_RETURN_IF_ERROR(FinishDeletes());
  WakeSealing();
  return Status::Ok();
}

void Shard::WakeSealing() {
  // Slabs that were read-only when the database was closed may not be sealed completely.
  const auto moment = view();
  const bool may_seal = std::any_of(
      moment->slabs().begin(), moment->slabs().end(),
      [](const SlabView& view) { return view.read_only && view.slab->log() != nullptr; });
  if (may_seal) sealing_.Wake();
}

Status Shard::BeginToWrite(WriterRecords records, std::vector<SlabView> slabs) {
  committer_.TakeAppendIds(records.append_ids.get());
  TOPICDB_RETURN_IF_ERROR(DropLeftovers(&records));
  if (records.is_new) return generations_.CreateAll();
  TOPICDB_RETURN_IF_ERROR(CheckCurrent(slabs));
  state_->Publish(std::make_shared<const std::vector<SlabView>>(std::move(slabs)), state_->deletes);
  // If a process ended while it changed the classes, this shard may not have adopted them, and
  // nobody knows any more which classes it had followed.
  const RetentionRules& rules = *state_->rules;
  std::vector<RetentionClassId> changed;
  if (records.rules_version < rules.version()) changed = rules.ids();
  if (changed.empty() && generations_.MissingClasses().empty()) return Status::Ok();
  return generations_.BeginAnew(std::move(changed));
}

Status Shard::Lead(std::shared_ptr<rocks::ShardLog> log) {
  bool deletes_any = false;
  {
    const MutexLock lock(state_->mutex);
    state_->SetLog(std::move(log));
    sealing_.ForgetFailure();
    state_->topics.Clear();
    std::vector<SlabView> slabs = *state_->slabs;
    TOPICDB_ASSIGN_OR_RETURN(WriterRecords records, LoadToWrite(state_.get(), slabs));
    // Whoever has begun a transaction as it followed has read what it may not know any more.
    transactions_.Clear();
    TOPICDB_RETURN_IF_ERROR(BeginToWrite(std::move(records), std::move(slabs)));
    for (const SlabView& slab_view : *state_->slabs) {
      slab_view.slab->upkeep().seen = SlabUpkeep::Seen::kNothing;
    }
    deletes_any = !state_->deletes->empty();
  }
  // They may have changed while nobody led, or this process may be the first to hear of it.
  TOPICDB_RETURN_IF_ERROR(generations_.Adopt(state_->environment->rules()));
  // A transaction that begins at another replica cannot make it.
  if (state_->environment->leader != nullptr) {
    TOPICDB_RETURN_IF_ERROR(generations_.EnsureReserved());
  }
  if (deletes_any) TOPICDB_RETURN_IF_ERROR(deletes_.FinishInBackground());
  WakeSealing();
  return Status::Ok();
}

Status Shard::Follow(std::shared_ptr<rocks::ShardLog> log) {
  const MutexLock lock(state_->mutex);
  const FamiliesByName spare = maker_.TakeSpare();
  state_->families.Add(spare);
  rocks::FamilyHandles handles;
  for (const auto& [name, family] : spare) handles.push_back(family->get());
  log->AddFamilies(handles);
  state_->SetLog(std::move(log));
  dropper_.Clear();
  transactions_.Clear();
  deletes_.ForgetProgress();
  state_->topics.Clear();
  for (const SlabView& slab_view : *state_->slabs) slab_view.slab->layout_state()->ForgetFresh();
  // After the writes that the log before has refused, memory is as RocksDB is.
  if (state_->poison.code() == Code::kNotLeader) state_->poison = Status::Ok();
  return state_->poison;
}

OpenedShard Shard::opened() const {
  return {state_->db.get(), state_->Name(), *state_->default_family, &state_->families,
          state_->environment->resources};
}

Status Shard::DropLeftovers(WriterRecords* records) {
  TOPICDB_RETURN_IF_ERROR(maker_.DropUnused(std::move(records->unnamed)));
  if (records->dropping.empty()) return Status::Ok();
  rocksdb::WriteBatch batch;
  for (const SlabId& id : records->dropping) {
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(batch.Delete(meta::SlabKey(id)), "dropping a generation of " + Name()));
  }
  return state_->Write({rocks::EntryKind::kGeneration}, &batch);
}

Status Shard::CheckCurrent(const std::vector<SlabView>& slabs) const {
  const RetentionRules& rules = *state_->rules;
  std::map<RetentionClassId, int> current;
  std::map<RetentionClassId, int> all;
  for (const SlabView& view : slabs) {
    const RetentionClassId id = view.slab->id().retention_class;
    ++all[id];
    if (!view.read_only) ++current[id];
  }
  for (RetentionClassId id; id < rules.ids_end(); ++id) {
    const bool may_lack = all[id] == 0 && (id >= rules.reserved());
    if (current[id] == 1 || may_lack) continue;
    return Corruption(Name() + ": class '" + rules.FilterOf(id) + "' has " +
                      std::to_string(current[id]) + " current generations");
  }
  return Status::Ok();
}

Status Shard::PrepareTransaction() {
  return WhereLed(
      *this, state_->environment->leader.get(), [] { return Status::Ok(); },
      [](ShardLeader* leader, auto deadline) { return leader->BeginTransaction(deadline); });
}

Result<std::optional<KnownAppend>> Shard::FindAppend(std::string_view id) const {
  using Found = Result<std::optional<KnownAppend>>;
  return WhereLed(
      *this, state_->environment->leader.get(), [&] { return Found(FindAppendHere(id)); },
      [&](ShardLeader* leader, auto deadline) { return leader->FindAppend(id, deadline); });
}

Status Shard::Rotate(std::optional<RetentionClassId> retention_class, std::optional<WallTime> as_if,
                     bool resets_clock, std::optional<LayoutKind> layout) {
  const RotateOptions options{retention_class, as_if, resets_clock, layout};
  return WhereLed(
      *this, state_->environment->leader.get(), [&] { return RotateHere(options); },
      [&](ShardLeader* leader, auto deadline) { return leader->Rotate(options, deadline); });
}

Status Shard::DropSlab(RetentionClassId retention_class, Generation generation) {
  return WhereLed(
      *this, state_->environment->leader.get(),
      [&] { return DropSlabHere(retention_class, generation); },
      [&](ShardLeader* leader, auto deadline) {
        return leader->DropSlab(retention_class, generation, deadline);
      });
}

Status Shard::Stage(const StagingStep& step) {
  return WhereLed(
      *this, state_->environment->leader.get(), [&] { return StageHere(step); },
      [&](ShardLeader* leader, auto deadline) { return leader->Stage(step, deadline); });
}

Status Shard::SealAll() {
  return WhereLed(
      *this, state_->environment->leader.get(), [&] { return SealAllHere(); },
      [](ShardLeader* leader, auto deadline) { return leader->SealAll(deadline); });
}

Status Shard::ApplyJob(const StagedJob& job, const std::atomic<bool>& canceled) {
  for (;;) {
    TOPICDB_RETURN_IF_ERROR(MayWrite());
    // What was staged may be gone once all shards have applied the job.
    if (FindApplied(*view()->jobs(), job.sequence, job.number) != nullptr) return Status::Ok();
    TOPICDB_ASSIGN_OR_RETURN(StagedMessages staged, staging_.Load(job));
    TOPICDB_RETURN_IF_ERROR(staging_.CopyPages(canceled, &staged));
    ShardCommit commit;
    commit.durability = Durability::kQuorum;
    commit.staged = &staged;
    const std::array<ShardCommit*, 1> alone{&commit};
    CommitHere(alone);
    if (commit.status.code() != Code::kConflict) return commit.status;
    TOPICDB_RETURN_IF_ERROR(RemoveUnplaced());
  }
}

void Shard::CommitHere(std::span<ShardCommit* const> group) {
  committer_.CommitHere(group);
  for (ShardCommit* commit : group) FinishDeletesOf(commit);
}

Status Shard::BeginElsewhere() {
  TOPICDB_RETURN_IF_ERROR(MayWrite());
  // The other replica counts the window from a little later.
  const auto window = 2 * state_->environment->commit.conflict_window;
  state_->NoteTransactionUntil(std::chrono::steady_clock::now() + window);
  return Status::Ok();
}

void Shard::FinishDeletesOf(ShardCommit* commit) {
  if (!commit->hides || !commit->status.ok()) return;
  commit->status = FinishDeletes();
  commit->deleted += deletes_.TakeRemoved(commit->serial);
  commit->hides = false;
}

void Shard::Commit(ShardCommit* commit) {
  committer_.Commit(commit);
  FinishDeletesOf(commit);
}

bool Shard::CommitAsync(std::unique_ptr<ShardCommit> commit, std::function<void()> done,
                        std::optional<GroupCommit::Clock::time_point> room_until) {
  const ShardCommit* const running = commit.get();
  auto finish = [this, running, done = std::move(done)] {
    if (running->hides && running->status.ok()) deletes_.FinishSoon(running->serial);
    done();
  };
  return committer_.CommitAsync(std::move(commit), std::move(finish), room_until);
}

Result<ShardFiles> Shard::FilesNow() TOPICDB_NO_THREAD_SAFETY_ANALYSIS {
  TOPICDB_RETURN_IF_ERROR(state_->CheckWritable());
  if (state_->unlogged_serial != kNoSerial) {  // the log lacks commits
    TOPICDB_RETURN_IF_ERROR(state_->FlushFamilies(*state_->slabs, /*wait=*/true));
    state_->unlogged_serial = kNoSerial;
  }
  ShardFiles files;
  files.serial = state_->commit.serial;
  TOPICDB_ASSIGN_OR_RETURN(files.hold, rocks::FilesHold::Take(state_->db.get()));
  auto listed = rocks::ListLiveFiles(state_->db.get());
  if (!listed.ok()) return listed.status().WithContext(Name());
  files.files = std::move(*listed);
  return files;
}

Result<ShardFiles> Shard::FilesOfReplica() {
  ShardFiles files;
  TOPICDB_ASSIGN_OR_RETURN(files.hold, rocks::FilesHold::Take(state_->db.get()));
  TOPICDB_RETURN_IF_ERROR(FlushMemory());
  auto listed = rocks::ListLiveFiles(state_->db.get());
  TOPICDB_RETURN_IF_ERROR(listed.status().WithContext(Name()));
  files.files = std::move(*listed);
  return files;
}

ShardStats Shard::Stats() const {
  const MutexLock lock(state_->mutex);
  ShardStats stats;
  stats.shard = state_->index;
  stats.serial = state_->commit.serial;
  stats.assigned_timestamp = std::max<std::int64_t>(state_->commit.assigned_timestamp, 0);
  const LeapClock::Times times = state_->clock.Look();
  stats.clock_ahead = AheadOf(times.believed_time, state_->commit);
  stats.clock_held = times.wall_time - times.believed_time;
  for (const SlabView& view : *state_->slabs) {
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
  stats.is_sealing = sealing_.IsBusy();
  if (!sealing_.status().ok()) stats.sealing_error = sealing_.status().message();
  stats.disk_bytes = state_->Property("rocksdb.live-sst-files-size");
  stats.memory_bytes = state_->Property("rocksdb.cur-size-all-mem-tables") +
                       state_->Property("rocksdb.estimate-table-readers-mem");
  return stats;
}

Status Shard::SettleToClose() {
  const MutexLock lock(state_->mutex);
  if (!state_->CheckWritable().ok()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(state_->SaveCleanState());
  TOPICDB_RETURN_IF_ERROR(dropper_.DropLeaving());
  return maker_.DropUnused();
}

Status Shard::Close() {
  if (state_->db == nullptr) return Status::Ok();
  committer_.Close();
  Status status;
  sealing_.Forget();
  deletes_.Forget();
  if (view() != nullptr) {                                     // it is null if opening has failed
    if (sealing_.HasMuchFresh()) SealAllHere().IgnoreError();  // sealing only makes files smaller
    status = SettleToClose();
    if (status.ok()) status = Flush();
    if (status.ok()) status = RemoveGarbage(GarbageScope::kQuick, nullptr);
  }
  state_->StopBackgroundWork();
  replay_.Forget();
  {
    const MutexLock lock(state_->mutex);
    maker_.Clear();
    dropper_.Clear();
  }
  const Status closed = state_->CloseRocks();
  return status.ok() ? closed : status;
}

}  // namespace topicdb
