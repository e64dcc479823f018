#include "store/shard/state/shard_state.h"

#include <algorithm>

#include <rocksdb/convenience.h>

#include "rocks/drop_families.h"
#include "rocks/rocks_compat.h"

namespace topicdb {

namespace {

// The bytes of the topic caches of all shards of a database together.
constexpr std::size_t kTopicCacheBytes = std::size_t{32} << 20;

// One call to RocksDB makes or drops the families of 1 / kFamilyCallPart of all slabs.
constexpr std::size_t kFamilyCallPart = 128;

// One fsync reserves this many serials.
constexpr std::uint64_t kSerialReserve = 65'536;

}  // namespace

ShardState::ShardState(std::shared_ptr<const ShardEnvironment> of, std::uint32_t number)
    : environment(std::move(of)),
      index(number),
      rules(environment->rules()),
      topics(kTopicCacheBytes / std::max<std::size_t>(environment->schema.shards, 1)) {}

ShardState::~ShardState() { CloseRocks().IgnoreError(); }

std::string ShardState::Name() const { return environment->NameOfShard(index); }

std::shared_ptr<const ShardView> ShardState::view() const {
  const MutexLock lock(view_mutex_);
  return view_;
}

std::shared_ptr<const ShardView> ShardState::BeginTransaction() {
  const MutexLock lock(view_mutex_);
  ++open_transactions_;
  return view_;
}

void ShardState::EndTransaction() {
  const MutexLock lock(view_mutex_);
  --open_transactions_;
}

void ShardState::NoteTransactionUntil(std::chrono::steady_clock::time_point until) {
  const MutexLock lock(view_mutex_);
  elsewhere_until_ = std::max(elsewhere_until_, until);
}

bool ShardState::Publish(SlabViews new_slabs, DeleteRecords new_deletes) {
  if (new_slabs != slabs) TakeSlabs(std::move(new_slabs));  // else it is one of many commits
  deletes = std::move(new_deletes);
  const rocksdb::Snapshot* snapshot = environment->read_only ? nullptr : db->GetSnapshot();
  auto published =
      std::make_shared<const ShardView>(environment, db.get(), snapshot, lists, deletes, jobs,
                                        commit.serial, deletes_version, removals_version);
  bool has_transactions = false;
  {
    const MutexLock lock(view_mutex_);
    view_.swap(published);
    if (elsewhere_until_ != std::chrono::steady_clock::time_point() &&
        std::chrono::steady_clock::now() >= elsewhere_until_) {
      elsewhere_until_ = {};
    }
    has_transactions =
        open_transactions_ > 0 || elsewhere_until_ != std::chrono::steady_clock::time_point();
  }
  environment->commits->Notify();
  environment->readers->Expire();
  return has_transactions;
}

void ShardState::TakeSlabs(SlabViews new_slabs) {
  slabs = std::move(new_slabs);
  current_.assign(rules->ids_end().value(), {});
  lists = ListSlabs(slabs);
  for (const SlabView& found : *lists.current) {
    current_[found.slab->id().retention_class.value()] = found;
  }
  older_copies.Reset(*slabs, rules);
}

const SlabView* ShardState::CurrentSlab(RetentionClassId retention_class) const {
  return &current_[retention_class.value()];
}

bool ShardState::HasSlab(const Slab& slab) const {
  return std::any_of(slabs->begin(), slabs->end(),
                     [&](const SlabView& other) { return other.slab.get() == &slab; });
}

void ShardState::NoteDeleted() {
  ++deletes_version;
  for (const SlabView& slab_view : *slabs) {
    slab_view.slab->upkeep().seen = SlabUpkeep::Seen::kNothing;
  }
}

Status ShardState::CheckWritable() const {
  if (environment->read_only) {
    return ReadOnly(environment->database_path + " was opened with mode='r'");
  }
  return poison.ok() ? log()->MayWrite() : poison;
}

Status ShardState::Write(const rocks::ShardEntry& entry, rocksdb::WriteBatch* batch) {
  Status status = log()->Write(entry, batch);
  if (!status.ok()) {
    Poison(status);
  } else if (entry.durability == rocks::EntryDurability::kDisk) {
    status = CheckInPlaceLocked();
  }
  return status;
}

void ShardState::Poison(const Status& status) {
  if (!poison.ok()) return;
  if (status.code() == Code::kNotLeader || status.code() == Code::kUnknownOutcome) {
    // Also after an unknown outcome, later writes surely are not done.
    poison = NotLeader(status.message());
    return;
  }
  poison = StorageFault(Name() + " takes no more writes since one failed; close and reopen it (" +
                        status.message() + ")");
}

Status ShardState::ReserveSerials(std::uint64_t more) {
  meta::CommitState reserved = commit;
  reserved.serial_limit = commit.serial.Next(more + kSerialReserve);
  if (!log()->reserves_serials()) {
    commit = reserved;
    return Status::Ok();
  }
  rocksdb::WriteBatch batch;
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
      batch.Put(meta::CommitStateKey(), meta::Encode(reserved)), "reserving serials of " + Name()));
  TOPICDB_RETURN_IF_ERROR(
      Write({rocks::EntryKind::kNumbers, rocks::EntryDurability::kDisk}, &batch));
  commit = reserved;
  return Status::Ok();
}

Status ShardState::SyncLog() {
  Status status = log()->Sync();
  // This comes after the fsync: what is acknowledged must be on disk, and be found there.
  if (status.ok()) return CheckInPlace();
  const MutexLock lock(mutex);
  // After a write has failed, RocksDB reports that error for all others, so `poison` says more.
  if (!poison.ok()) status = poison;
  Poison(status);
  return StorageFault(status.message() +
                      ": the commit is visible, but may be gone after a loss of power");
}

Status ShardState::CheckInPlace() {
  if (log()->CheckInPlace().ok()) return Status::Ok();
  const MutexLock lock(mutex);
  return CheckInPlaceLocked();
}

Status ShardState::CheckInPlaceLocked() {
  Status status = log()->CheckInPlace();
  if (!status.ok()) Poison(status);
  return status;
}

Result<std::optional<LeapRecord>> ShardState::PutClock(rocksdb::WriteBatch* batch) const {
  if (!clock.IsChanged()) return std::optional<LeapRecord>();
  const LeapRecord record = clock.record();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch->Put(meta::ClockKey(), meta::Encode(record)),
                                           "noting the clock of " + Name()));
  return std::optional(record);
}

Status ShardState::SaveClock() {
  const MutexLock lock(mutex);
  if (!CheckWritable().ok()) return Status::Ok();
  clock.Look();
  rocksdb::WriteBatch batch;
  TOPICDB_ASSIGN_OR_RETURN(const auto saved, PutClock(&batch));
  if (!saved.has_value()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(Write({rocks::EntryKind::kNumbers}, &batch));
  clock.NoteSaved(*saved);
  return Status::Ok();
}

Status ShardState::SaveCleanState() {
  if (environment->read_only || !poison.ok()) return Status::Ok();
  rocksdb::WriteBatch batch;
  TOPICDB_RETURN_IF_ERROR(PutClock(&batch).status());
  if (commit.serial_limit != commit.serial) {
    commit.serial_limit = commit.serial;
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
        batch.Put(meta::CommitStateKey(), meta::Encode(commit)), "closing " + Name()));
  }
  return batch.Count() == 0 ? Status::Ok() : Write({rocks::EntryKind::kNumbers}, &batch);
}

Status ShardState::Flush() {
  if (environment->read_only) return Status::Ok();
  const MutexLock lock(mutex);
  if (poison.ok()) TOPICDB_RETURN_IF_ERROR(CheckInPlaceLocked());
  const Status status = FlushFamilies(*slabs, /*wait=*/true);
  if (!poison.ok()) return poison;
  TOPICDB_RETURN_IF_ERROR(status);
  TOPICDB_RETURN_IF_ERROR(CheckInPlaceLocked());
  unlogged_serial = kNoSerial;
  return Status::Ok();
}

Status ShardState::FlushFamilies(const std::vector<SlabView>& of_slabs, bool wait) {
  const FamiliesByName kept = families.all();  // somebody may drop some meanwhile
  const std::shared_ptr<rocks::ShardLog> writer = log();
  flushed_bytes_ = writer->bytes();
  rocks::FamilyHandles flushed{default_family->get()};
  for (const SlabView& slab_view : of_slabs) {
    for (rocksdb::ColumnFamilyHandle* family : slab_view.slab->all_families())
      flushed.push_back(family);
  }
  rocksdb::FlushOptions options;
  options.wait = wait;
  options.allow_write_stall = true;  // false: waits for a moment at which it stalls nobody
  return rocks::FromRocks(db->Flush(options, writer->FlushedWith(std::move(flushed))),
                          "flushing " + Name());
}

Status ShardState::DropFamilies(const rocks::FamilyHandles& dropped) {
  if (dropped.empty()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(log()->PrepareDrop(dropped));
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(rocks::DropFamilies(db.get(), dropped),
                                           "dropping column families of " + Name()));
  for (const rocksdb::ColumnFamilyHandle* family : dropped) {
    const std::string name = family->GetName();
    families.Remove(name);
  }
  return Status::Ok();
}

std::shared_ptr<rocks::ShardLog> ShardState::log() const {
  const MutexLock lock(log_mutex_);
  return log_;
}

void ShardState::SetLog(std::shared_ptr<rocks::ShardLog> log) {
  const MutexLock lock(log_mutex_);
  log_ = std::move(log);
  flushed_bytes_ = 0;
}

// Several threads may be here. Each returns when everything that was committed before its call is
// in files.
Status ShardState::FlushUnlogged() {
  while (true) {
    SlabViews flushed;
    Serial serial;
    {
      const MutexLock lock(mutex);
      if (unlogged_serial == kNoSerial) return Status::Ok();
      serial = unlogged_serial;
      flushed = slabs;
    }
    const Status status = FlushFamilies(*flushed, /*wait=*/true);
    const MutexLock lock(mutex);
    if (status.ok()) {
      if (unlogged_serial == serial) unlogged_serial = kNoSerial;
      return status;
    }
    if (slabs == flushed) return status;  // if not, a slab may have been dropped: try again
  }
}

std::uint64_t ShardState::Property(const char* name) const {
  std::uint64_t value = 0;
  return db->GetAggregatedIntProperty(name, &value) ? value : 0;
}

std::size_t ShardState::SlabsAtOnce() const {
  return slabs == nullptr ? 0 : slabs->size() / kFamilyCallPart;
}

void ShardState::StopBackgroundWork() { rocksdb::CancelAllBackgroundWork(db.get(), /*wait=*/true); }

Status ShardState::CloseRocks() {
  if (db == nullptr) return Status::Ok();
  StopBackgroundWork();
  {
    const MutexLock lock_view(view_mutex_);
    view_.reset();
  }
  {
    const MutexLock lock_commits(mutex);
    slabs.reset();
    current_.clear();
    lists = {};
    older_copies = OlderCopies();
  }
  default_family.reset();
  families.Clear();
  SetLog(nullptr);
  const Status closed = rocks::FromRocks(db->Close(), "closing " + Name());
  db.reset();
  directory_lock.reset();
  return closed;
}

}  // namespace topicdb
