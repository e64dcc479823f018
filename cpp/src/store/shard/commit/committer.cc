#include "store/shard/commit/committer.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "topicdb/topic.h"

namespace topicdb {

namespace {

// Returns whether the effect of a commit depends on what is stored before it.
bool LooksAtStorage(const ShardCommit& commit) {
  const TransactionOps* ops = commit.transaction;
  return ops != nullptr && (ops->start_serial.has_value() || ops->generation.has_value() ||
                            !ops->deletes.empty() || !ops->requirements.empty());
}

// Returns whether a commit deletes messages of users, and not only of TopicDB's own topics.
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

// Gives all commits of a batch the status of the one that has failed, and moves them to `over`.
void FailTogether(const Status& status, std::vector<ShardCommit*>* batch,
                  std::vector<ShardCommit*>* over) {
  for (ShardCommit* commit : *batch) {
    commit->status = status;
    commit->written = false;
    over->push_back(commit);
  }
  batch->clear();
}

}  // namespace

Committer::Committer(const Parts& parts)
    : shard_(parts.shard),
      disk_(parts.disk),
      sealing_(parts.sealing),
      transactions_(parts.transactions),
      merge_deletes_(parts.merge_deletes),
      jobs_(parts.jobs),
      queue_([this](std::span<ShardCommit* const> group) { CommitGroup(group); },
             [this] { return shard_.SyncLog(); }, shard_.environment->commit) {}

void Committer::Commit(ShardCommit* commit) {
  // The commit does not wait for others. Transactions that begin meanwhile should see it instead of
  // conflicting with it later.
  commit->is_urgent = LooksAtStorage(*commit);
  queue_.Run(commit);
}

bool Committer::CommitAsync(std::unique_ptr<ShardCommit> commit, std::function<void()> done,
                            std::optional<GroupCommit::Clock::time_point> room_until) {
  return queue_.Submit(std::move(commit), std::move(done), room_until);
}

std::unique_ptr<CommitBuilder> Committer::NewBuilder(const ExpectedWrites& expected) {
  return std::make_unique<CommitBuilder>(shard_, append_ids_, merge_deletes_.is_on(), expected);
}

void Committer::CommitGroup(std::span<ShardCommit* const> group) {
  ShardLeader* const leader = shard_.environment->leader.get();
  if (leader == nullptr) return CommitHere(group);
  for (ShardCommit* commit : group) commit->status = NotLeader({});  // until it is known
  try {
    CommitAtLeader(group, leader);
  } catch (const std::exception& error) {
    for (ShardCommit* commit : group) {
      const Code code = commit->status.code();
      if (code != Code::kNotLeader && code != Code::kUnknownOutcome) continue;
      commit->status = Status(code, "committing to " + shard_.Name() + ": " + error.what());
    }
  }
}

void Committer::CommitAtLeader(std::span<ShardCommit* const> group, ShardLeader* leader) {
  const auto deadline = ShardLeader::Clock::now() + leader->patience();
  std::vector<ShardCommit*> waiting(group.begin(), group.end());
  // Those whose outcome is unknown: an append with an id is stored once, however often it comes.
  std::vector<ShardCommit*> doubtful;
  const auto keep_undone = [&] {
    std::erase_if(waiting, [&](ShardCommit* commit) {
      const bool is_doubtful =
          std::find(doubtful.begin(), doubtful.end(), commit) != doubtful.end();
      if (is_doubtful && commit->status.code() == Code::kNotLeader) {
        // Nobody has looked whether an earlier attempt has stored it.
        commit->status = UnknownOutcome("whether this append is stored is not known yet: " +
                                        commit->status.message());
      }
      if (commit->status.code() == Code::kUnknownOutcome && commit->id != nullptr) {
        if (!is_doubtful) doubtful.push_back(commit);
        return false;
      }
      return commit->status.code() != Code::kNotLeader;
    });
  };
  for (;;) {
    if (shard_.log()->MayWrite().ok()) {
      CommitHere(waiting);
      keep_undone();
    }
    if (!waiting.empty()) {
      leader->Commit(waiting, deadline);
      keep_undone();
    }
    if (waiting.empty() || ShardLeader::Clock::now() >= deadline) break;
  }
  // What was stored at the first attempt, whose answer was lost, is no repetition for the caller.
  for (ShardCommit* commit : doubtful) commit->repeated = false;
}

void Committer::CommitHere(std::span<ShardCommit* const> group) {
  std::vector<ShardCommit*> over;
  try {
    over.reserve(group.size());
    CommitEach(group, &over);
  } catch (const std::exception& error) {
    const MutexLock lock(shard_.mutex);
    const bool lacks_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    const Status fault = StorageFault("committing to " + shard_.Name() + ": " +
                                      (lacks_memory ? "there is not enough memory" : error.what()));
    // What is in memory and what is on disk may differ now.
    if (std::exchange(is_writing_, false)) shard_.Poison(fault);
    for (ShardCommit* commit : group) {
      if (std::find(over.begin(), over.end(), commit) != over.end()) continue;
      commit->status = fault;
      commit->written = false;
    }
  }
}

void Committer::CommitEach(std::span<ShardCommit* const> group, std::vector<ShardCommit*>* over) {
  sealing_.WaitForRoom();
  const MutexLock lock(shard_.mutex);
  std::vector<ShardCommit*> built;
  auto builder = NewBuilder(Expect(group));
  const auto write_built = [&]() TOPICDB_REQUIRES(shard_.mutex) {
    WriteBuilt(builder.get(), built);
    over->insert(over->end(), built.begin(), built.end());
    built.clear();
    builder = NewBuilder({});
  };
  Status usable = shard_.CheckWritable();
  if (usable.ok() && shard_.commit.serial.Next(group.size()) > shard_.commit.serial_limit) {
    usable = shard_.ReserveSerials();
    builder = NewBuilder({});
  }
  std::size_t left = group.size();  // commits from this one on
  for (ShardCommit* commit : group) {
    if (commit->claim != nullptr && !commit->claim->Take()) {
      commit->status = Closed("this commit was withdrawn before it was applied: nothing is stored");
      over->push_back(commit);
      --left;
      continue;
    }
    commit->status = usable;
    if (commit->staged != nullptr) {
      write_built();
      usable = shard_.CheckWritable();
      commit->status = usable.ok() ? CommitStaged(commit, left) : usable;
      over->push_back(commit);
      builder = NewBuilder({});
      --left;
      continue;
    }
    --left;
    if (LooksAtStorage(*commit)) {
      write_built();
      usable = shard_.CheckWritable();
      commit->status = usable.ok() ? transactions_.Check(commit) : usable;
    }
    if (commit->id != nullptr && builder->HasId(commit->id->id)) {
      write_built();
      usable = shard_.CheckWritable();
      commit->status = usable;
    }
    if (!commit->status.ok() || IsRepeated(commit)) {
      over->push_back(commit);
      continue;
    }
    built.push_back(commit);
    commit->status = builder->Add(commit);
    if (commit->status.ok()) continue;
    // The batch may have a part of the commit that has failed, so nothing of the batch is written.
    FailTogether(commit->status, &built, over);
    builder = NewBuilder({});
  }
  write_built();
}

Status Committer::CommitStaged(ShardCommit* commit, std::size_t left) {
  if (jobs_.IsRepeated(commit)) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(const std::uint64_t blocks, jobs_.TakePages(*commit->staged));
  if (shard_.commit.serial.Next(blocks + left) > shard_.commit.serial_limit) {
    TOPICDB_RETURN_IF_ERROR(shard_.ReserveSerials(blocks));
  }
  const auto builder = NewBuilder({});
  TOPICDB_RETURN_IF_ERROR(builder->AddStaged(commit).WithContext(shard_.Name()));
  const std::array<ShardCommit*, 1> alone{commit};
  WriteBuilt(builder.get(), alone);
  return commit->status;
}

void Committer::WriteBuilt(CommitBuilder* builder, std::span<ShardCommit* const> commits) {
  if (builder->empty()) return;
  WriteAndShow(builder, commits);
  is_writing_ = false;
}

void Committer::WriteAndShow(CommitBuilder* builder, std::span<ShardCommit* const> commits) {
  bool logged = true;
  const Status status = WriteBatch(builder, &logged);
  if (!status.ok()) {
    for (ShardCommit* commit : commits) {
      commit->status = status;
      commit->written = false;
    }
    return;
  }
  builder->Apply();
  for (const auto& [id, known] : builder->ids()) append_ids_.Add(id, known);
  NoteDeletes(*builder, commits);
  if (shard_.commit.assigned_timestamp != builder->state().assigned_timestamp) {
    clock_ahead_ = AheadOf(builder->now(), builder->state());
  }
  shard_.commit = builder->state();
  if (!logged) shard_.unlogged_serial = shard_.commit.serial;
  disk_.NoteWritten(builder->batch()->GetDataSize());
  const bool is_staged = commits.front()->staged != nullptr;
  if (is_staged) {
    auto jobs = *shard_.jobs;
    jobs.insert_or_assign(commits.front()->staged->sequence, builder->job());
    shard_.jobs = std::make_shared<const meta::JobRecords>(std::move(jobs));
  }
  DeleteRecords deletes = shard_.deletes;
  if (!builder->deletes().empty()) {
    auto more = *shard_.deletes;
    more.insert(more.end(), builder->deletes().begin(), builder->deletes().end());
    deletes = std::make_shared<const std::vector<meta::DeleteRecord>>(std::move(more));
  }
  if (shard_.Publish(shard_.slabs, std::move(deletes)) && !is_staged) {
    transactions_.Remember(*builder, commits);
  } else {
    transactions_.Clear();
  }
  for (ShardCommit* commit : commits) {
    if (commit->claim != nullptr) commit->claim->NoteStored();
  }
  if (sealing_.IsDue()) sealing_.Wake();
}

Status Committer::WriteBatch(CommitBuilder* builder, bool* logged) {
  TOPICDB_RETURN_IF_ERROR(builder->Finish(logged));
  is_writing_ = true;  // until WriteBuilt returns
  const auto durability = *logged ? rocks::EntryDurability::kLog : rocks::EntryDurability::kMemory;
  auto saved = shard_.PutClock(builder->batch());
  const Status status =
      saved.ok() ? shard_.Write({rocks::EntryKind::kCommit, durability}, builder->batch())
                 : saved.status();
  if (!status.ok()) {
    // Of a shard with replicas, its log says whether the commit may be stored.
    if (shard_.environment->leader != nullptr) return Status(status.code(), status.message());
    return Status(status.code(),
                  status.message() + ": whether this commit is stored is seen after reopening");
  }
  if (saved->has_value()) shard_.clock.NoteSaved(**saved);
  return Status::Ok();
}

void Committer::NoteDeletes(const CommitBuilder& builder, std::span<ShardCommit* const> commits) {
  for (const ShardCommit* commit : commits) {
    if (commit->deleted > 0 || commit->hides) {
      shard_.NoteDeleted();
      if (DeletesOfUsers(*commit)) shard_.removals_version = NewRemovalsVersion();
    }
    merge_deletes_.Add(*commit);
  }
  if (builder.replaces_any()) ++shard_.deletes_version;
  merge_deletes_.Add(builder.replaced());
}

bool Committer::IsRepeated(ShardCommit* commit) const {
  if (commit->id == nullptr) return false;
  const std::optional<KnownAppend> known = append_ids_.Find(commit->id->id);
  if (!known.has_value()) return false;
  commit->status = CheckSameAppend(*commit->id, *known);
  commit->serial = known->serial;
  commit->repeated = true;
  commit->written = true;  // so that it waits for an fsync if it asks for one
  return true;
}

}  // namespace topicdb
