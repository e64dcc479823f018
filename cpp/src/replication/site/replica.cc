#include "replication/site/replica.h"

#include <algorithm>
#include <utility>

#include "base/file/files.h"
#include "replication/site/hand_over.h"
#include "replication/snapshot/shard_copies.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb::replication {

namespace {

// How long a replica that closes waits for another one to lead.
constexpr std::chrono::milliseconds kHandOverPatience(2'000);
// How long it waits before it proposes again what was not answered.
constexpr std::chrono::milliseconds kProposeAgainAfter(100);
// How often it looks whether somebody still has a shard that a snapshot has replaced.
constexpr std::chrono::milliseconds kRetiredInterval(500);

}  // namespace

Result<std::unique_ptr<Replica>> Replica::Open(RaftSite* site,
                                               std::shared_ptr<const ShardEnvironment> environment,
                                               std::uint32_t index, ReplicaOptions options) {
  std::unique_ptr<Replica> replica(
      new Replica(site, std::move(environment), index, std::move(options)));
  TOPICDB_ASSIGN_OR_RETURN(replica->lock_, LockShard(*replica->environment_, index));
  const std::string directory = ShardDirectory(replica->environment_->directory, index);
  TOPICDB_RETURN_IF_ERROR(PrepareCopies(directory).WithContext(replica->name_));
  replica->directory_ = FollowLink(directory);
  TOPICDB_ASSIGN_OR_RETURN(replica->replicated_,
                           ReplicatedShard::Open(replica->environment_, index, replica->link_));
  const std::uint64_t applied = replica->replicated_->applied().index;
  replica->GiveOut();
  {
    const MutexLock lock(replica->mutex_);
    replica->applied_ = applied;
    replica->files_have_shard_ = replica->IsMade();
  }
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
      name_(environment_->NameOfShard(index)),
      flushed_at_(std::chrono::steady_clock::now()),
      carrier_(site, options_.group, ShardDirectory(environment_->directory, index),
               [this](const std::string& directory) { return MakeSource(directory); }),
      link_(std::make_shared<LeaderLink>(
          site, options_.group, name_, options_.commit_patience,
          LeaderLink::Parts{[this] { return position().leader; },
                            [this](std::chrono::milliseconds patience) { return Lead(patience); },
                            [this] { return this->applied(); }, [this] { return Standing(); },
                            [this](std::uint64_t entry, std::chrono::milliseconds patience) {
                              AwaitApplied(entry, patience);
                            }})) {}

Result<std::string> Replica::Answer(std::string_view request) {
  return IsLeaderCall(request) ? link_->Answer(request) : carrier_.Answer(request);
}

Result<std::shared_ptr<Shard>> Replica::Lead(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  for (;;) {
    if (!failure_.ok()) return failure_;
    if (state_ == ReplicaState::kLeading && !MustGiveUp()) return given_;
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

Result<std::shared_ptr<Shard>> Replica::Read(Serial at_least, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  CommitSignal& commits = *environment_->commits;
  for (;;) {
    const std::uint64_t seen = commits.count();
    bool is_over = false;
    {
      const MutexLock lock(mutex_);
      if (!failure_.ok()) return failure_;
      is_over = closing_;  // it applies nothing more
      if (!is_over && given_->view()->serial() >= at_least) return given_;
    }
    if (is_over || std::chrono::steady_clock::now() >= deadline) {
      return Stale(name_ + ": this replica has not come to commit " +
                   std::to_string(at_least.value()) + " within " +
                   std::to_string(patience.count()) + " ms: read from another one");
    }
    commits.WaitUntil(seen, deadline);
  }
}

bool Replica::AwaitMade(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  CommitSignal& commits = *environment_->commits;
  for (;;) {
    const std::uint64_t seen = commits.count();
    if (!shard()->view()->slabs().empty()) return true;
    if (!failure().ok() || std::chrono::steady_clock::now() >= deadline) return false;
    commits.WaitUntil(seen, deadline);
  }
}

std::shared_ptr<Shard> Replica::shard() const {
  const MutexLock lock(mutex_);
  return given_;
}

void Replica::Watch(std::function<void(std::shared_ptr<Shard>)> replace) {
  const MutexLock lock(mutex_);
  replace_ = std::move(replace);
  replace_(given_);
}

ReplicaState Replica::state() const {
  const MutexLock lock(mutex_);
  // Another one leads already, though this one has not come to give up.
  if (state_ == ReplicaState::kLeading && MustGiveUp()) return ReplicaState::kGivingUp;
  return state_;
}

std::uint64_t Replica::applied() const {
  const MutexLock lock(mutex_);
  return reign_ == nullptr ? applied_ : reign_->applied();
}

void Replica::AwaitApplied(std::uint64_t index, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  while (applied_ < index && reign_ == nullptr && failure_.ok() && !closing_) {
    if (std::chrono::steady_clock::now() >= deadline) return;
    changed_.WaitUntil(mutex_, deadline);
  }
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
      case Step::kRemove:
        retired_.Remove(/*all=*/false);
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
    const bool is_late =
        std::chrono::steady_clock::now() >= flush_at || (!files_have_shard_ && IsMade());
    if (unflushed_bytes_ >= options_.flush_bytes || (unflushed_bytes_ > 0 && is_late)) {
      return Step::kFlush;
    }
    if (follows && !to_apply_.empty()) return Step::kApply;
    if (retired_.MayRemove()) return Step::kRemove;
    if (!retired_.empty()) {
      changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kRetiredInterval);
    } else if (unflushed_bytes_ > 0) {
      changed_.WaitUntil(mutex_, flush_at);
    } else {
      changed_.Wait(mutex_);
    }
  }
}

void Replica::FlushAll() {
  {
    const MutexLock lock(mutex_);
    unflushed_bytes_ = 0;
    flushed_at_ = std::chrono::steady_clock::now();
    files_have_shard_ = IsMade();
  }
  const std::uint64_t index = replicated_->applied().index;
  const Status flushed = replicated_->shard()->FlushMemory();
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
  const auto is_here = carrier_.Fetch(manifest);
  if (is_here.ok()) return *is_here;
  // A manifest that is damaged comes again.
  if (is_here.status().code() == Code::kSchema) Fail(is_here.status());
  site_.NoteSnapshotFetched(options_.group, false);
  return false;
}

Status Replica::InstallSnapshot() {
  const MutexLock lock(mutex_);
  installs_ = true;
  changed_.NotifyAll();
  while (installs_ && !closing_ && failure_.ok()) changed_.Wait(mutex_);
  return installs_ ? Closed(name_ + " is being closed") : installed_;
}

void Replica::InstallFetched() {
  const Result<std::uint64_t> index = Exchange();
  if (!index.ok()) Fail(index.status());
  const MutexLock lock(mutex_);
  if (index.ok()) {
    applied_ = *index;
    while (!to_apply_.empty() && to_apply_.front().place.index <= *index) to_apply_.pop_front();
  }
  installs_ = false;
  installed_ = index.status();
  changed_.NotifyAll();
}

Result<std::uint64_t> Replica::Exchange() {
  TOPICDB_ASSIGN_OR_RETURN(const SnapshotManifest manifest, carrier_.Install());
  TOPICDB_ASSIGN_OR_RETURN(auto opened, ReplicatedShard::Open(environment_, index_, link_));
  const std::uint64_t index = manifest.applied.index;
  if (opened->applied().index != index) {
    return Corruption("the snapshot is not that of entry " + std::to_string(index));
  }
  retired_.Add(std::exchange(replicated_, std::move(opened)), directory_, shard());
  directory_ = FollowLink(ShardDirectory(environment_->directory, index_));
  GiveOut();
  return index;
}

void Replica::GiveOut() {
  std::shared_ptr<Shard> shard = replicated_->shard();
  Shard* const given = shard.get();
  std::shared_ptr<Shard> counted(given, [kept = std::move(shard)](Shard*) {});
  {
    const MutexLock lock(mutex_);
    given_.swap(counted);
    if (replace_) replace_(given_);
  }
  environment_->readers->Clear();  // they hold the shard before
  environment_->commits->Notify();
}

Result<std::unique_ptr<SnapshotSource>> Replica::MakeSource(const std::string& directory) {
  TOPICDB_ASSIGN_OR_RETURN(const auto led, Lead(std::chrono::milliseconds(0)));
  return SnapshotSource::Make(led->view()->db(), environment_->resources, site_.replica(),
                              directory);
}

void Replica::ApplyNext() {
  KeptEntry entry;
  {
    const MutexLock lock(mutex_);
    entry = std::move(to_apply_.front());
    to_apply_.pop_front();
  }
  const std::uint64_t before = replicated_->applied().index;
  bool leads = false;
  if (!entry.bytes.empty() && entry.place.index > before) {
    const Status applied = replicated_->Apply(entry.place, std::move(entry.bytes));
    if (!applied.ok()) return Fail(applied);
    const meta::Applied after = replicated_->applied();
    // The entry with which the present term of this replica begins.
    const MutexLock lock(mutex_);
    leads = after.index == entry.place.index && after.number == 0 &&
            after.epoch == position_.term && position_.role == RaftRole::kLeader;
  }
  {
    const MutexLock lock(mutex_);
    applied_ = std::max(applied_, entry.place.index);
    changed_.NotifyAll();
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
      LetAnotherLead();
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
  const auto reign = std::make_shared<Reign>(
      &site_, options_.group, began, options_.commit_patience, [this] { Wake(); }, options_.format);
  {
    const MutexLock lock(mutex_);
    state_ = ReplicaState::kTakingOver;
    reign_ = reign;
    for (KeptEntry& entry : to_apply_) reign->Pass(std::move(entry));
    to_apply_.clear();
    // Lead may write, and the site may be about to install a snapshot, for which it waits.
    if (MustGiveUp()) return;
  }
  if (const Status led = replicated_->Lead(reign); !led.ok()) {
    const Code code = led.code();
    if (code != Code::kNotLeader && code != Code::kUnknownOutcome) return Fail(led);
    reign->End(led);
    return;  // Work gives up
  }
  const MutexLock lock(mutex_);
  state_ = ReplicaState::kLeading;
  changed_.NotifyAll();
}

void Replica::GiveUp() {
  {
    const MutexLock lock(mutex_);
    state_ = ReplicaState::kGivingUp;
    reign_->End(NotLeader("this replica leads no more"));
  }
  if (const Status follows = replicated_->Follow(); !follows.ok()) return Fail(follows);
  const std::uint64_t applied = replicated_->applied().index;
  const MutexLock lock(mutex_);
  to_apply_ = reign_->TakeRest(applied);
  applied_ = applied;
  reign_.reset();
  state_ = ReplicaState::kFollowing;
  begun_term_ = 0;
  changed_.NotifyAll();
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
  environment_->commits->Notify();
}

void Replica::LetAnotherLead() {
  // If no other one leads in time, the others elect one after their election timeout.
  HandOver(&site_, options_.group, std::chrono::steady_clock::now() + kHandOverPatience)
      .IgnoreError();
}

Status Replica::Close() {
  bool leads = false;
  {
    const MutexLock lock(mutex_);
    leads = position_.role == RaftRole::kLeader && failure_.ok();
  }
  if (leads) LetAnotherLead();
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (worker_.joinable()) worker_.join();
  if (beginner_.joinable()) beginner_.join();
  carrier_.Stop();
  retired_.Remove(/*all=*/true);
  std::shared_ptr<Shard> given;
  {
    const MutexLock lock(mutex_);
    given.swap(given_);
  }
  given.reset();
  const Status closed = replicated_ == nullptr ? Status::Ok() : replicated_->Close();
  replicated_.reset();
  lock_.reset();
  site_.Leave(options_.group);
  // What closing would have written only saves the next opening some work.
  const bool led_no_more =
      closed.code() == Code::kNotLeader || closed.code() == Code::kUnknownOutcome;
  return led_no_more ? Status::Ok() : closed;
}

}  // namespace topicdb::replication
