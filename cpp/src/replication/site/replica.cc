#include "replication/site/replica.h"

#include <utility>

#include "replication/replicated_shard_log.h"

namespace topicdb::replication {

namespace {

// How long a replica that closes waits for another one to lead.
constexpr std::chrono::milliseconds kHandOverPatience(2'000);
// How long it waits before it proposes again what was not answered.
constexpr std::chrono::milliseconds kProposeAgainAfter(100);

// Returns OK if a RocksDB that was opened again has all that was applied to it: the entry at index
// `applied`. RocksDB closes without an error if it fails to move something to files. The log has it
// still, but hands it out only when the site is opened.
Status CheckHas(const std::string& name, std::uint64_t found, std::uint64_t applied) {
  if (found >= applied) return Status::Ok();
  return StorageFault(name + " has only the entries up to " + std::to_string(found) + " of " +
                      std::to_string(applied) +
                      " on disk, since moving them to files has failed: start the site again");
}

}  // namespace

LedShard::~LedShard() {
  shard_.reset();
  replica_->GiveBack();
}

Result<std::unique_ptr<Replica>> Replica::Open(RaftSite* site,
                                               std::shared_ptr<const ShardEnvironment> environment,
                                               std::uint32_t index, ReplicaOptions options) {
  std::unique_ptr<Replica> replica(
      new Replica(site, std::move(environment), index, std::move(options)));
  TOPICDB_ASSIGN_OR_RETURN(replica->follower_, Follower::Open(replica->environment_, index));
  const std::uint64_t applied = replica->follower_->applied().index;
  TOPICDB_RETURN_IF_ERROR(
      site->Join(replica->options_.group, replica->options_.voters, applied, replica.get())
          .WithContext(replica->name_));
  replica->worker_ = std::thread([self = replica.get()] { self->Work(); });
  replica->beginner_ = std::thread([self = replica.get()] { self->BeginReigns(); });
  return replica;
}

Replica::Replica(RaftSite* site, std::shared_ptr<const ShardEnvironment> environment,
                 std::uint32_t index, ReplicaOptions options)
    : site_(*site),
      environment_(std::move(environment)),
      index_(index),
      options_(std::move(options)),
      name_("shard " + std::to_string(index) + " of " + environment_->database_path),
      flushed_at_(std::chrono::steady_clock::now()),
      carrier_(site, options_.group, ShardDirectory(environment_->directory, index),
               [this](const std::string& directory) { return MakeSource(directory); }) {}

Result<std::unique_ptr<LedShard>> Replica::Lead(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  for (;;) {
    if (!failure_.ok()) return failure_;
    if (state_ == ReplicaState::kLeading && !MustGiveUp()) {
      ++led_;
      return std::make_unique<LedShard>(this, shard_);
    }
    const bool another_leads = position_.leader != 0 && position_.leader != site_.replica();
    if (another_leads) {
      return NotLeader(name_ + ": replica " + std::to_string(position_.leader) +
                       " leads: write there");
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return NotLeader(name_ + ": no replica has come to lead within " +
                       std::to_string(patience.count()) +
                       " ms: a majority of the replicas must be up");
    }
    changed_.WaitUntil(mutex_, deadline);
  }
}

ReplicaState Replica::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

RaftPosition Replica::position() const {
  const MutexLock lock(mutex_);
  return position_;
}

Status Replica::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

void Replica::TakeCommitted(const std::vector<CommittedEntry>& entries) {
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  for (const CommittedEntry& entry : entries) {
    unflushed_bytes_ += entry.bytes.size();
    KeptEntry kept{entry.place, std::string(entry.bytes)};
    if (reign_ != nullptr) {
      reign_->Pass(std::move(kept));
    } else {
      to_apply_.push_back(std::move(kept));
    }
  }
  changed_.NotifyAll();
}

void Replica::TakePosition(const RaftPosition& position) {
  const MutexLock lock(mutex_);
  position_ = position;
  if (reign_ != nullptr && MustGiveUp()) reign_->End(NotLeader("this replica leads no more"));
  changed_.NotifyAll();
}

void Replica::TakeStop(const Status& why) { Fail(why); }

bool Replica::MustGiveUp() const {
  return position_.role != RaftRole::kLeader || position_.term != reign_->term() ||
         reign_->is_over();
}

void Replica::Work() {
  for (;;) {
    switch (AwaitStep()) {
      case Step::kEnd:
        return;
      case Step::kGiveUp:
        GiveUp();
        break;
      case Step::kInstall:
        InstallFetched();
        break;
      case Step::kFlush:
        FlushAll();
        break;
      case Step::kApply:
        ApplyNext();
        break;
    }
  }
}

Replica::Step Replica::AwaitStep() {
  const MutexLock lock(mutex_);
  for (;;) {
    if (closing_) return Step::kEnd;
    const bool follows = reign_ == nullptr;
    if (!failure_.ok()) {
      changed_.Wait(mutex_);
      continue;
    }
    if (!follows && MustGiveUp()) return Step::kGiveUp;
    if (follows && installs_) return Step::kInstall;
    const auto flush_at = flushed_at_ + options_.flush_interval;
    const bool is_late = std::chrono::steady_clock::now() >= flush_at;
    if (unflushed_bytes_ >= options_.flush_bytes || (unflushed_bytes_ > 0 && is_late)) {
      return Step::kFlush;
    }
    if (follows && !to_apply_.empty()) return Step::kApply;
    if (unflushed_bytes_ > 0) {
      changed_.WaitUntil(mutex_, flush_at);
    } else {
      changed_.Wait(mutex_);
    }
  }
}

void Replica::FlushAll() {
  std::shared_ptr<Shard> shard;
  std::uint64_t index = 0;
  {
    const MutexLock lock(mutex_);
    unflushed_bytes_ = 0;
    flushed_at_ = std::chrono::steady_clock::now();
    if (reign_ != nullptr) {
      if (shard_ == nullptr) return;  // it could not be opened
      shard = shard_;
      index = reign_->applied();
    }
  }
  if (shard == nullptr) index = follower_->applied().index;
  const Status flushed = shard == nullptr ? follower_->Flush() : shard->FlushMemory();
  if (!flushed.ok()) return Fail(flushed);
  site_.NoteFlushed(options_.group, index);
}

bool Replica::FetchSnapshot(std::string_view manifest) {
  {
    const MutexLock lock(mutex_);
    if (!failure_.ok() || reign_ != nullptr) {  // the leader offers it again
      site_.NoteSnapshotFetched(options_.group, false);
      return false;
    }
  }
  return carrier_.Fetch(manifest);
}

Status Replica::InstallSnapshot() {
  const MutexLock lock(mutex_);
  installs_ = true;
  changed_.NotifyAll();
  while (installs_ && !closing_ && failure_.ok()) changed_.Wait(mutex_);
  return installs_ ? Closed(name_ + " is being closed") : installed_;
}

void Replica::InstallFetched() {
  Status status = follower_->Close();
  follower_.reset();
  std::uint64_t index = 0;
  if (status.ok()) {
    const auto installed = carrier_.Install();
    status = installed.status();
    if (installed.ok()) index = installed->applied.index;
  }
  if (status.ok()) {
    auto opened = Follower::Open(environment_, index_);
    status = opened.status();
    if (opened.ok()) follower_ = std::move(*opened);
  }
  if (status.ok() && follower_->applied().index != index) {
    status = Corruption("the snapshot is not that of entry " + std::to_string(index));
  }
  if (!status.ok()) Fail(status);
  const MutexLock lock(mutex_);
  while (!to_apply_.empty() && to_apply_.front().place.index <= index) to_apply_.pop_front();
  installs_ = false;
  installed_ = std::move(status);
  changed_.NotifyAll();
}

Result<std::unique_ptr<SnapshotSource>> Replica::MakeSource(const std::string& directory) {
  TOPICDB_ASSIGN_OR_RETURN(const auto led, Lead(std::chrono::milliseconds(0)));
  return SnapshotSource::Make((*led)->view()->db(), environment_->resources, site_.replica(),
                              directory);
}

void Replica::ApplyNext() {
  KeptEntry entry;
  {
    const MutexLock lock(mutex_);
    entry = std::move(to_apply_.front());
    to_apply_.pop_front();
  }
  const std::uint64_t before = follower_->applied().index;
  bool leads = false;
  if (!entry.bytes.empty() && entry.place.index > before) {
    const Status applied = follower_->Apply(entry.place, std::move(entry.bytes));
    if (!applied.ok()) return Fail(applied);
    const meta::Applied after = follower_->applied();
    // The entry with which the present term of this replica begins.
    const MutexLock lock(mutex_);
    leads = after.index == entry.place.index && after.number == 0 &&
            after.epoch == position_.term && position_.role == RaftRole::kLeader;
  }
  site_.NoteApplied(options_.group, entry.place.index);
  if (leads) TakeOver(entry.place);
}

void Replica::BeginReigns() {
  Entry begins;
  begins.kind = EntryKind::kLead;
  const std::vector<std::string> entries{Encode(begins)};
  for (;;) {
    std::uint64_t term = 0;
    bool has_failed = false;
    {
      const MutexLock lock(mutex_);
      for (;;) {
        if (closing_) return;
        has_failed = !failure_.ok();
        const bool may_begin = state_ == ReplicaState::kFollowing || has_failed;
        if (position_.role == RaftRole::kLeader && begun_term_ != position_.term && may_begin) {
          break;
        }
        changed_.Wait(mutex_);
      }
      term = begun_term_ = position_.term;
    }
    if (has_failed) {  // a replica that applies nothing must not lead
      HandOver();
      continue;
    }
    const auto place = site_.Propose(options_.group, entries, options_.commit_patience);
    if (place.ok()) continue;
    const MutexLock lock(mutex_);
    if (begun_term_ == term && !closing_) {
      changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kProposeAgainAfter);
      begun_term_ = 0;
    }
  }
}

void Replica::TakeOver(const LogPlace& began) {
  if (const Status closed = follower_->Close(); !closed.ok()) return Fail(closed);
  follower_.reset();
  site_.NoteFlushed(options_.group, began.index);
  const auto reign =
      std::make_shared<Reign>(&site_, options_.group, began, options_.commit_patience, [this] {
        const MutexLock lock(mutex_);
        changed_.NotifyAll();
      });
  {
    const MutexLock lock(mutex_);
    state_ = ReplicaState::kTakingOver;
    reign_ = reign;
    for (KeptEntry& entry : to_apply_) reign->Pass(std::move(entry));
    to_apply_.clear();
    // Loading the shard may write, and the site may be about to install a snapshot, for which it
    // waits.
    if (MustGiveUp()) return;
  }
  auto environment = std::make_shared<ShardEnvironment>(*environment_);
  environment->open_log =
      [reign](const OpenedShard& opened) -> Result<std::unique_ptr<rocks::ShardLog>> {
    TOPICDB_ASSIGN_OR_RETURN(std::unique_ptr<UnloggedRocks> rocks, UnloggedRocks::Make(opened));
    TOPICDB_RETURN_IF_ERROR(CheckHas(opened.name, rocks->applied().index, reign->applied()));
    return std::unique_ptr<rocks::ShardLog>(
        std::make_unique<ReplicatedShardLog>(reign.get(), std::move(rocks)));
  };
  auto shard = Shard::Open(std::move(environment), index_, /*create=*/false);
  if (!shard.ok()) {
    const Code code = shard.status().code();
    if (code != Code::kNotLeader && code != Code::kUnknownOutcome) return Fail(shard.status());
    reign->End(shard.status());
    return;  // Work gives up
  }
  const MutexLock lock(mutex_);
  shard_ = std::move(*shard);
  state_ = ReplicaState::kLeading;
  changed_.NotifyAll();
}

void Replica::GiveUp() {
  std::shared_ptr<Shard> shard;
  {
    const MutexLock lock(mutex_);
    state_ = ReplicaState::kGivingUp;
    reign_->End(NotLeader("this replica leads no more"));
    while (led_ != 0) changed_.Wait(mutex_);
    shard = std::move(shard_);
  }
  // It cannot write any more, so this only closes RocksDB.
  if (shard != nullptr) shard->Close().IgnoreError();
  shard.reset();
  if (const Status follows = Follow(); !follows.ok()) Fail(follows);
}

Status Replica::Follow() {
  TOPICDB_ASSIGN_OR_RETURN(follower_, Follower::Open(environment_, index_));
  const std::uint64_t applied = follower_->applied().index;
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckHas(name_, applied, reign_->applied()));
  site_.NoteFlushed(options_.group, applied);
  to_apply_ = reign_->TakeRest(applied);
  reign_.reset();
  state_ = ReplicaState::kFollowing;
  begun_term_ = 0;
  changed_.NotifyAll();
  return Status::Ok();
}

void Replica::Fail(const Status& why) {
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = why.WithContext(name_ + " takes part no more");
  state_ = ReplicaState::kFailed;
  if (reign_ != nullptr) reign_->End(failure_);
  to_apply_.clear();
  begun_term_ = 0;
  changed_.NotifyAll();
}

void Replica::HandOver() {
  const auto status = site_.StatusOf(options_.group);
  if (!status.ok()) return;
  for (const std::uint64_t voter : status->voters) {
    if (voter == site_.replica()) continue;
    if (site_.Transfer(options_.group, voter, kHandOverPatience).ok()) return;
  }
}

void Replica::GiveBack() {
  const MutexLock lock(mutex_);
  --led_;
  changed_.NotifyAll();
}

Status Replica::Close() {
  bool leads = false;
  {
    const MutexLock lock(mutex_);
    leads = position_.role == RaftRole::kLeader && failure_.ok();
  }
  if (leads) HandOver();
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (worker_.joinable()) worker_.join();
  if (beginner_.joinable()) beginner_.join();
  carrier_.Stop();
  std::shared_ptr<Shard> shard;
  {
    const MutexLock lock(mutex_);
    shard = std::move(shard_);
  }
  Status closed;
  if (shard != nullptr) closed = shard->Close();
  shard.reset();
  if (follower_ != nullptr) closed = follower_->Close();
  follower_.reset();
  site_.Leave(options_.group);
  // What closing would have written only saves the next opening some work.
  const Code code = closed.code();
  const bool led_no_more = code == Code::kNotLeader || code == Code::kUnknownOutcome;
  return led_no_more ? Status::Ok() : closed;
}

}  // namespace topicdb::replication
