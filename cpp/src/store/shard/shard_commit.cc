// What a shard does with a group of commits.

#include <algorithm>

#include "commit/key_range.h"
#include "rocks/rocks_compat.h"
#include "store/read/point_lookup.h"
#include "store/shard/commit_builder.h"
#include "store/shard/delete_expander.h"
#include "store/shard/shard.h"
#include "topicdb/envelope.h"
#include "topicdb/topic.h"

namespace topicdb {

namespace {

// Serials that one fsync reserves.
constexpr std::uint64_t kSerialReserve = 65'536;
// Messages that one step of a large delete removes, with other commits in between.
constexpr std::size_t kDeleteStep = 10'000;

// What a commit does depends on what is stored before it.
bool LooksAtStorage(const ShardCommit& commit) {
  const TransactionOps* ops = commit.transaction;
  return ops != nullptr && (ops->start_serial.has_value() || ops->generation.has_value() ||
                            !ops->deletes.empty() || !ops->requirements.empty());
}

// Messages that users read, not what is kept among TopicDB's own topics.
bool DeletesOfUsers(const ShardCommit& commit) {
  if (commit.transaction == nullptr) return true;
  const auto& deletes = commit.transaction->deletes;
  return std::any_of(deletes.begin(), deletes.end(), [](const KeyRange& keys) {
    return !keys.filter.text().starts_with(kReservedPrefix);
  });
}

ExpectedWrites Expect(std::span<ShardCommit* const> group) {
  ExpectedWrites expected;
  for (const ShardCommit* commit : group) {
    expected.rows += commit->messages.size();
    expected.bytes += commit->bytes;
  }
  return expected;
}

}  // namespace

void Shard::Commit(ShardCommit* commit) {
  // Transactions that begin meanwhile should see it, instead of conflicting with it later.
  commit->is_urgent = LooksAtStorage(*commit);
  queue_.Run(commit);
  if (!commit->hides || !commit->status.ok()) return;
  commit->status = FinishDeletes();
  const MutexLock lock(commit_mutex_);
  const auto removed = removed_.extract(commit->serial - 1);
  if (!removed.empty()) commit->deleted += removed.mapped();
}

void Shard::CommitAsync(std::unique_ptr<ShardCommit> commit, std::function<void()> done) {
  queue_.Submit(std::move(commit), std::move(done));
}

void Shard::CommitGroup(std::span<ShardCommit* const> group) {
  WaitForSealing();
  const MutexLock lock(commit_mutex_);
  std::vector<ShardCommit*> built;
  const ExpectedWrites expected = Expect(group);
  auto builder = std::make_unique<CommitBuilder>(*this, state_, &topics_, expected);
  const auto write_built = [&]() TOPICDB_REQUIRES(commit_mutex_) {
    WriteBuilt(builder.get(), built);
    built.clear();
    builder = std::make_unique<CommitBuilder>(*this, state_, &topics_, ExpectedWrites{});
  };
  Status usable = CheckWritable();
  if (usable.ok() && state_.serial + group.size() > state_.serial_limit) {
    usable = ReserveSerials();
    builder = std::make_unique<CommitBuilder>(*this, state_, &topics_, ExpectedWrites{});
  }
  for (ShardCommit* commit : group) {
    commit->status = usable;
    if (commit->staged != nullptr) {
      write_built();
      usable = CheckWritable();
      commit->status = usable.ok() ? CommitStaged(commit) : usable;
      builder = std::make_unique<CommitBuilder>(*this, state_, &topics_, ExpectedWrites{});
      continue;
    }
    if (LooksAtStorage(*commit)) {
      write_built();
      usable = CheckWritable();
      commit->status = usable.ok() ? CheckTransaction(commit) : usable;
    }
    if (commit->id != nullptr && builder->HasId(commit->id->id)) {
      write_built();
      usable = CheckWritable();
      commit->status = usable;
    }
    if (!commit->status.ok() || IsRepeated(commit)) continue;
    built.push_back(commit);
    commit->status = builder->Add(commit);
    if (commit->status.ok()) continue;
    // Nothing of the batch can be trusted: none of it is written.
    for (ShardCommit* other : built) {
      other->status = commit->status;
      other->written = false;
    }
    built.clear();
    builder = std::make_unique<CommitBuilder>(*this, state_, &topics_, ExpectedWrites{});
  }
  write_built();
}

void Shard::WriteBuilt(CommitBuilder* builder, std::span<ShardCommit* const> commits) {
  if (builder->empty()) return;
  bool logged = true;
  Status status = builder->Finish(&logged);
  if (status.ok()) {
    rocksdb::WriteOptions options;
    options.disableWAL = !logged;
    auto saved = PutClock(builder->batch());
    status = saved.ok() ? Write(options, builder->batch()) : saved.status();
    if (status.ok() && saved->has_value()) clock_.NoteSaved(**saved);
    if (!status.ok()) {
      status = Status(status.code(),
                      status.message() + ": whether this commit is stored is seen after reopening");
    }
  }
  if (!status.ok()) {
    for (ShardCommit* commit : commits) {
      commit->status = status;
      commit->written = false;
    }
    return;
  }
  builder->Apply();
  for (const auto& [id, known] : builder->ids()) append_ids_.Add(id, known);
  for (const ShardCommit* commit : commits) {
    if (commit->deleted > 0 || commit->hides) {
      ++deletes_version_;
      NoteRemovals();
      if (DeletesOfUsers(*commit)) removals_version_ = NewRemovalsVersion();
    }
    if (merge_deletes_.has_value()) NoteDeletes(*commit);
  }
  if (builder->replaces_any()) ++deletes_version_;
  if (merge_deletes_.has_value()) {
    merge_deletes_->insert(merge_deletes_->end(), builder->replaced().begin(),
                           builder->replaced().end());
  }
  if (state_.clock_us != builder->state().clock_us) {
    clock_ahead_us_ = std::max<std::int64_t>(builder->state().clock_us - builder->now_us(), 0);
  }
  state_ = builder->state();
  if (!logged) unlogged_serial_ = state_.serial;
  disk_written_bytes_ += builder->batch()->GetDataSize();
  DeleteRecords deletes = deletes_;
  if (!builder->deletes().empty()) {
    auto more = *deletes_;
    more.insert(more.end(), builder->deletes().begin(), builder->deletes().end());
    deletes = std::make_shared<const std::vector<meta::DeleteRecord>>(std::move(more));
  }
  const bool is_staged = commits.front()->staged != nullptr;
  if (is_staged) {
    auto jobs = *jobs_;
    jobs.insert_or_assign(commits.front()->staged->sequence, builder->job());
    jobs_ = std::make_shared<const meta::JobRecords>(std::move(jobs));
  }
  if (Publish(slabs_, std::move(deletes)) && !is_staged) {
    Remember(*builder, commits);
  } else {
    memory_.Clear(state_.serial);
  }
  if (IsSealingDue()) environment_->sealer->Wake(this);
}

bool Shard::IsRepeated(ShardCommit* commit) const {
  if (commit->id == nullptr) return false;
  const std::optional<KnownAppend> known = append_ids_.Find(commit->id->id);
  if (!known.has_value()) return false;
  commit->status = CheckSameAppend(*commit->id, *known);
  commit->serial = known->serial;
  commit->repeated = true;
  commit->written = true;  // so that it waits for an fsync if it asks for one
  return true;
}

void Shard::Remember(const CommitBuilder& builder, std::span<ShardCommit* const> commits) {
  const auto now = std::chrono::steady_clock::now();
  if (now - memory_aged_at_ > environment_->commit.conflict_window) {
    memory_.Age();
    memory_aged_at_ = now;
  }
  auto assigned = builder.assigned().begin();
  for (const ShardCommit* commit : commits) {
    if (commit->transaction != nullptr && (commit->deleted > 0 || commit->hides)) {
      for (const KeyRange& keys : commit->transaction->deletes) {
        memory_.RecordDelete(keys, commit->serial);
      }
    }
    for (const MessageView& message : commit->messages) {
      const bool is_assigned = message.timestamp == kAssignTimestamp;
      memory_.RecordWrite(message.topic, is_assigned ? *assigned : message.timestamp,
                          commit->serial);
      if (is_assigned) ++assigned;
    }
  }
}

Status Shard::CheckTransaction(ShardCommit* commit) const {
  TOPICDB_RETURN_IF_ERROR(CheckGeneration(*commit));
  TOPICDB_RETURN_IF_ERROR(CheckConflicts(commit));
  return CheckRequirements(commit);
}

Status Shard::CheckGeneration(const ShardCommit& commit) const {
  const std::optional<std::uint32_t>& generation = commit.transaction->generation;
  if (!generation.has_value()) return Status::Ok();
  for (const MessageView& message : commit.messages) {
    const std::uint32_t retention_class = rules_->ClassOf(message.topic);
    const std::shared_ptr<Slab>& slab = CurrentSlab(retention_class)->slab;
    const std::uint32_t current = slab == nullptr ? 0 : slab->id().generation;
    if (current == *generation) continue;
    return ReadOnly("generation " + std::to_string(*generation) + " of class '" +
                    rules_->FilterOf(retention_class) + "' in " + Name() +
                    " takes no messages: the current one is " + std::to_string(current));
  }
  return Status::Ok();
}

Status Shard::CheckConflicts(ShardCommit* commit) const {
  const TransactionOps& ops = *commit->transaction;
  if (!ops.start_serial.has_value()) return Status::Ok();
  const auto open_for = std::chrono::steady_clock::now() - ops.begun;
  const bool changes = !commit->messages.empty() || !ops.deletes.empty();
  if (!changes && ops.requirements.empty()) return Status::Ok();  // one moment's reads are in order
  if (open_for > environment_->commit.conflict_window || memory_.Forgot(*ops.start_serial)) {
    commit->fault.conflicts.push_back({"#", {}, 0});
    const auto ms = [](auto time) {
      return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
    };
    return Conflict(
        "it is no longer known what changed since the transaction began: it was open for " +
        ms(open_for) + " ms (conflict_window is " + ms(environment_->commit.conflict_window) +
        " ms, conflict_entries_max " + std::to_string(environment_->commit.conflict_entries_max) +
        "), or a generation was dropped; nothing was applied: run it again");
  }
  std::string text;
  const auto check = [&](const KeyRange& keys) TOPICDB_REQUIRES(commit_mutex_) {
    const std::uint64_t serial = memory_.FindChange(keys, *ops.start_serial);
    if (serial == 0) return;
    commit->fault.conflicts.push_back({keys.filter.text(), keys.range, serial});
    if (text.empty()) text = Describe(keys) + " was changed by commit " + std::to_string(serial);
  };
  for (const KeyRange& keys : ops.reads) check(keys);
  for (const KeyRange& keys : ops.deletes) check(keys);
  for (const Requirement& requirement : ops.requirements) {
    TOPICDB_ASSIGN_OR_RETURN(Filter topic, Filter::Parse(requirement.topic));
    check({std::move(topic), Instant(requirement.timestamp)});
  }
  if (text.empty()) return Status::Ok();
  return Conflict(text + " since the transaction began; nothing was applied: run it again");
}

Status Shard::CheckRequirements(ShardCommit* commit) const {
  const TransactionOps& ops = *commit->transaction;
  for (const Requirement& requirement : ops.requirements) {
    const PointLookup lookup{
        *slabs_,       *deletes_, db_.get(), nullptr, rules_->ClassesWith(requirement.topic),
        ops.generation};
    TOPICDB_ASSIGN_OR_RETURN(auto found, lookup.Find(requirement.topic, requirement.timestamp));
    std::optional<std::string> value;
    if (found.has_value()) {
      // What readers see; TopicDB's own values are what they are.
      const bool is_own = requirement.topic.starts_with(kReservedPrefix);
      value = is_own ? std::move(found->value) : std::string(PayloadOf(found->value));
    }
    if (value == requirement.value) continue;
    commit->fault.preconditions.push_back(
        {requirement.topic, requirement.timestamp, requirement.value, std::move(value)});
  }
  if (commit->fault.preconditions.empty()) return Status::Ok();
  const PreconditionItem& first = commit->fault.preconditions.front();
  const auto show = [](const std::optional<std::string>& value) {
    return value.has_value() ? "a message of " + std::to_string(value->size()) + " bytes"
                             : std::string("none");
  };
  return PreconditionFault("topic '" + first.topic + "' at " + std::to_string(first.timestamp) +
                           ": expected " + show(first.expected) + ", found " + show(first.found) +
                           (first.expected && first.found ? " with another value" : "") +
                           "; nothing was applied");
}

Status Shard::ReserveSerials(std::uint64_t more) {
  meta::CommitState reserved = state_;
  reserved.serial_limit = state_.serial + more + kSerialReserve;
  rocksdb::WriteBatch batch;
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
      batch.Put(meta::CommitStateKey(), meta::Encode(reserved)), "reserving serials of " + Name()));
  rocksdb::WriteOptions options;
  options.sync = true;
  TOPICDB_RETURN_IF_ERROR(Write(options, &batch));
  state_ = reserved;
  return Status::Ok();
}

Status Shard::SyncLog() {
  Status status = rocks::FromRocks(db_->SyncWAL(), "fsyncing the log of " + Name());
  if (status.ok()) return status;
  const MutexLock lock(commit_mutex_);
  // After a write that failed, RocksDB says of others only that one did.
  if (!poison_.ok()) status = poison_;
  Poison(status);
  return StorageFault(status.message() +
                      ": the commit is visible, but may be gone after a loss of power");
}

std::shared_ptr<const ShardView> Shard::BeginTransaction() {
  const MutexLock lock(view_mutex_);
  ++open_transactions_;
  return view_;
}

void Shard::EndTransaction() {
  const MutexLock lock(view_mutex_);
  --open_transactions_;
}

Status Shard::FinishDeletes() {
  while (true) {
    DeleteRecords deletes;
    {
      const MutexLock lock(commit_mutex_);
      deletes = deletes_;
    }
    if (deletes->empty()) return Status::Ok();
    for (bool more = true; more;) {
      TOPICDB_ASSIGN_OR_RETURN(more, RemoveHidden(deletes->front()));
    }
    environment_->sealer->Wake(this);  // blocks may have become nearly empty
  }
}

Result<bool> Shard::RemoveHidden(const meta::DeleteRecord& record) {
  const MutexLock lock(commit_mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  const auto is_it = [&](const meta::DeleteRecord& other) {
    return other.serial == record.serial && other.index == record.index;
  };
  // Another thread may have finished it.
  if (std::none_of(deletes_->begin(), deletes_->end(), is_it)) return false;
  rocksdb::WriteBatch batch;
  DeleteExpander expander(*this, &batch, kDeleteStep);
  TOPICDB_ASSIGN_OR_RETURN(const bool complete, expander.Remove(record, /*masked=*/false));
  TOPICDB_RETURN_IF_ERROR(expander.Finish());
  if (complete) {
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(batch.Delete(meta::DeleteKey(record.serial, record.index)),
                         "finishing a delete in " + Name()));
  }
  TOPICDB_RETURN_IF_ERROR(Write(rocksdb::WriteOptions(), &batch));
  removed_[record.serial] += expander.removed();
  ++deletes_version_;
  NoteRemovals();
  if (!complete) return true;
  auto rest = *deletes_;
  std::erase_if(rest, is_it);
  Publish(slabs_, std::make_shared<const std::vector<meta::DeleteRecord>>(std::move(rest)));
  return false;
}

}  // namespace topicdb
