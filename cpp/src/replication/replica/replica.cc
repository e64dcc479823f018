#include "replication/replica/replica.h"

#include <algorithm>
#include <utility>

#include "store/shard/state/shard_rocks.h"

namespace topicdb::replication {

namespace {

// How often it looks whether somebody still has a shard that a snapshot has replaced.
constexpr std::chrono::milliseconds kRetiredInterval(500);

ReignStarter::Fitness FitnessIn(ReplicaState state) {
  if (state == ReplicaState::kFollowing) return ReignStarter::Fitness::kFollows;
  const bool applies = state != ReplicaState::kHealing && state != ReplicaState::kFailed;
  return applies ? ReignStarter::Fitness::kReigns : ReignStarter::Fitness::kMustNotReign;
}

}  // namespace

Result<std::unique_ptr<Replica>> Replica::Open(RaftSite* site,
                                               std::shared_ptr<const ShardEnvironment> environment,
                                               std::uint32_t index, ReplicaOptions options) {
  std::unique_ptr<Replica> replica(
      new Replica(site, std::move(environment), index, std::move(options)));
  TOPICDB_RETURN_IF_ERROR(replica->OpenCopy());
  TOPICDB_RETURN_IF_ERROR(replica->JoinGroup());
  replica->worker_ = std::thread([self = replica.get()] { self->Work(); });
  replica->starter_.Start();
  return replica;
}

Replica::Replica(RaftSite* site, std::shared_ptr<const ShardEnvironment> environment,
                 std::uint32_t index, ReplicaOptions options)
    : site_(*site),
      environment_(std::move(environment)),
      options_(std::move(options)),
      name_(environment_->NameOfShard(index)),
      copy_(environment_, index, [this](const LogPlace& place) { TakeDigest(place); }),
      starter_(site, options_.group, options_.commit_patience),
      flushed_at_(std::chrono::steady_clock::now()),
      digester_([this](const Status& why) { ReportDamage(why); }),
      carrier_(site, options_.group, ShardDirectory(environment_->directory, index),
               [this](const std::string& directory) { return MakeSource(directory); }),
      healer_(site, options_.group, ShardDirectory(environment_->directory, index), options_.heals,
              [this] { Wake(); }),
      link_(std::make_shared<LeaderLink>(
          site, options_.group, name_, options_.commit_patience,
          LeaderLink::Parts{[this] { return position().leader; },
                            [this](std::chrono::milliseconds patience) { return Lead(patience); },
                            [this] { return this->applied(); }, [this] { return Standing(); },
                            [this](std::uint64_t entry, std::chrono::milliseconds patience) {
                              AwaitApplied(entry, patience);
                            }})) {}

Result<std::string> Replica::Answer(std::string_view request) {
  if (IsLeaderCall(request)) return link_->Answer(request);
  if (IsSnapshotWish(request) && (!failure().ok() || !damage().ok())) {
    return NotFound(name_ + " is damaged here, too");
  }
  return carrier_.Answer(request);
}

Result<std::shared_ptr<Shard>> Replica::Lead(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  for (;;) {
    if (!failure_.ok()) return failure_;
    if (state_ == ReplicaState::kLeading && !MustGiveUp()) return copy_.shard();
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
  const auto has_it = [at_least](const Shard& shard) { return shard.view()->serial() >= at_least; };
  TOPICDB_RETURN_IF_ERROR(failure());
  auto shard = copy_.Await(has_it, patience, [this] { return AppliesNoMore(); });
  if (shard != nullptr) return shard;
  TOPICDB_RETURN_IF_ERROR(failure());
  return Stale(name_ + ": this replica has not come to commit " + std::to_string(at_least.value()) +
               " within " + std::to_string(patience.count()) + " ms: read from another one");
}

bool Replica::AwaitMade(std::chrono::milliseconds patience) {
  const auto is_made = [](const Shard& shard) { return !shard.view()->slabs().empty(); };
  return copy_.Await(is_made, patience, [this] { return AppliesNoMore(); }) != nullptr;
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
  while (applied_ < index && reign_ == nullptr && failure_.ok() && damage().ok() && !closing_) {
    if (std::chrono::steady_clock::now() >= deadline) return;
    changed_.WaitUntil(mutex_, deadline);
  }
}

void Replica::TakeCommitted(const std::vector<CommittedEntry>& entries) {
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  // A write that was under way when the damage was found still waits for its entry.
  const bool is_whole = damage().ok();
  if (!is_whole && reign_ == nullptr) return;
  for (const CommittedEntry& entry : entries) {
    if (awaits_ != 0 && entry.place.index != awaits_) continue;
    awaits_ = 0;
    if (is_whole) unflushed_bytes_ += entry.bytes.size();
    KeptEntry kept{entry.place, entry.Keep()};
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
  starter_.Tell(position_, FitnessIn(state_));
  if (reign_ != nullptr && MustGiveUp()) reign_->End(NotLeader("this replica leads no more"));
  changed_.NotifyAll();
}

void Replica::SetState(ReplicaState state) {
  state_ = failure_.ok() ? state : ReplicaState::kFailed;
  starter_.Tell(position_, FitnessIn(state_));
}

Status Replica::OpenCopy() {
  TOPICDB_ASSIGN_OR_RETURN(const auto note, copy_.Open(link_, options_.heals));
  const MutexLock lock(mutex_);
  applied_ = copy_.replicated().applied().index;
  files_have_shard_ = copy_.IsMade();
  if (note.has_value()) {
    healer_.Begin(Corruption(note->why));
    SetState(ReplicaState::kHealing);
  }
  return Status::Ok();
}

Status Replica::JoinGroup() {
  std::optional<std::uint64_t> applied;
  if (damage().ok()) applied = this->applied();
  Status joined = site_.Join(options_.group, options_.voters, applied, this);
  if (joined.code() == Code::kCorruption && applied.has_value() && options_.heals) {
    TOPICDB_RETURN_IF_ERROR(copy_.NoteDamage(joined.message()));
    {
      const MutexLock lock(mutex_);
      healer_.Begin(joined);
      SetState(ReplicaState::kHealing);
    }
    joined = site_.Join(options_.group, options_.voters, std::nullopt, this);
  }
  TOPICDB_RETURN_IF_ERROR(joined.WithContext(name_));
  if (!damage().ok()) healer_.Fetch();
  return Status::Ok();
}

Status Replica::Heal() {
  TOPICDB_ASSIGN_OR_RETURN(const RaftStatus status, site_.StatusOf(options_.group));
  if (status.members.size() < 2) {
    return ClusterFault(name_ + ": no other site has a replica from which it could be filled");
  }
  const MutexLock lock(mutex_);
  if (failure_.code() != Code::kCorruption) TOPICDB_RETURN_IF_ERROR(failure_);
  healer_.Ask(Corruption("somebody has asked to fill it anew"));
  changed_.NotifyAll();
  return Status::Ok();
}

Status Replica::AwaitHealed(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  for (;;) {
    TOPICDB_RETURN_IF_ERROR(failure_);
    const Status damage = this->damage();
    if (damage.ok()) return Status::Ok();
    if (closing_ || std::chrono::steady_clock::now() >= deadline) {
      return Stale(name_ + " was damaged, and has not come from another site within " +
                   std::to_string(patience.count()) + " ms: wait for it (" + damage.message() +
                   ")");
    }
    changed_.WaitUntil(mutex_, deadline);
  }
}

void Replica::ReportDamage(const Status& why) {
  const MutexLock lock(mutex_);
  if (!failure_.ok() || !healer_.MayHeal(why)) return;
  healer_.Ask(why);
  changed_.NotifyAll();
}

void Replica::Damage(const Status& why) {
  if (!damage().ok()) return;
  failure().ok() && healer_.MayHeal(why) ? BeginToHeal(why) : Fail(why);
}

void Replica::BeginToHeal(const Status& why) {
  if (!damage().ok()) return;
  const Status noted = copy_.NoteDamage(why.message());
  if (!noted.ok()) return Fail(noted);
  {
    const MutexLock lock(mutex_);
    healer_.Begin(why);
    failure_ = Status::Ok();
    SetState(ReplicaState::kHealing);
    led_.reset();
    if (reign_ != nullptr) reign_->End(NotLeader(name_ + " is damaged here: " + why.message()));
    to_apply_.clear();
    unflushed_bytes_ = 0;
    changed_.NotifyAll();
  }
  environment_->commits->Notify();
  healer_.Fetch();
}

void Replica::TakeRefill() {
  const std::uint64_t index = healer_.TakeFetched().value_or(0);
  if (damage().ok()) return;
  if (const Status taken = copy_.TakeRefill(index); !taken.ok()) return Fail(taken);
  {
    const MutexLock lock(mutex_);
    applied_ = index;
    awaits_ = index + 1;
    healer_.End();
    files_have_shard_ = copy_.IsMade();
  }
  site_.NoteRefilled(options_.group, index);
  const MutexLock lock(mutex_);
  SetState(ReplicaState::kFollowing);
  changed_.NotifyAll();
}

bool Replica::MustGiveUp() const {
  return position_.role != RaftRole::kLeader || position_.term != reign_->term() ||
         reign_->is_over();
}

void Replica::Work() {
  while (const Step step = AwaitStep()) (this->*step)();
}

Replica::Step Replica::AwaitStep() {
  const MutexLock lock(mutex_);
  for (;;) {
    if (closing_) return nullptr;
    if (healer_.is_asked()) return &Replica::HealAsAsked;
    const bool follows = reign_ == nullptr;
    if (!failure_.ok()) {
      changed_.Wait(mutex_);
      continue;
    }
    if (!follows && MustGiveUp()) return &Replica::GiveUp;
    if (follows && installs_) return &Replica::InstallFetched;
    if (follows && healer_.has_fetched()) return &Replica::TakeRefill;
    const auto flush_at = flushed_at_ + options_.flush_interval;
    const bool is_late =
        std::chrono::steady_clock::now() >= flush_at || (!files_have_shard_ && copy_.IsMade());
    if (unflushed_bytes_ >= options_.flush_bytes || (unflushed_bytes_ > 0 && is_late)) {
      return &Replica::FlushAll;
    }
    if (follows && !to_apply_.empty()) return &Replica::ApplyNext;
    if (copy_.MayRemoveRetired()) return &Replica::RemoveRetired;
    if (copy_.has_retired()) {
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
    files_have_shard_ = copy_.IsMade();
  }
  const std::uint64_t index = copy_.replicated().applied().index;
  const Status flushed = copy_.replicated().shard()->FlushMemory();
  if (!flushed.ok()) return Damage(flushed);
  site_.NoteFlushed(options_.group, index);
}

bool Replica::FetchSnapshot(std::string_view manifest) {
  bool may_install = false;
  {
    const MutexLock lock(mutex_);
    may_install = failure_.ok() && reign_ == nullptr;
  }
  if (may_install) {
    const auto is_here = carrier_.Fetch(manifest);
    if (is_here.ok()) return *is_here;
    // A manifest that is damaged comes again.
    if (is_here.status().code() == Code::kSchema) Fail(is_here.status());
  }
  site_.NoteSnapshotFetched(options_.group, false);  // the leader offers it again
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
  const Result<std::uint64_t> index = TakeSnapshot();
  if (!index.ok()) Fail(index.status());
  const MutexLock lock(mutex_);
  if (index.ok()) {
    if (!damage().ok()) SetState(ReplicaState::kFollowing);
    healer_.End();  // what has come heals the replica, too
    awaits_ = 0;
    applied_ = *index;
    while (!to_apply_.empty() && to_apply_.front().place.index <= *index) to_apply_.pop_front();
  }
  installs_ = false;
  installed_ = index.status();
  changed_.NotifyAll();
}

Result<std::uint64_t> Replica::TakeSnapshot() {
  TOPICDB_ASSIGN_OR_RETURN(const SnapshotManifest manifest, carrier_.Install());
  TOPICDB_RETURN_IF_ERROR(copy_.TakeSnapshot(manifest.applied.index));
  return manifest.applied.index;
}

Result<std::unique_ptr<SnapshotSource>> Replica::MakeSource(const std::string& directory) {
  TOPICDB_RETURN_IF_ERROR(failure());
  TOPICDB_RETURN_IF_ERROR(damage());
  const std::shared_ptr<Shard> source = copy_.shard();
  return SnapshotSource::Make(source->view()->db(), environment_->resources, site_.replica(),
                              directory);
}

Result<LogPlace> Replica::BeginDigest() {
  std::shared_ptr<ReplicatedShardLog> led;
  {
    const MutexLock lock(mutex_);
    TOPICDB_RETURN_IF_ERROR(failure_);
    if (state_ == ReplicaState::kLeading && !MustGiveUp()) led = led_;
  }
  if (led == nullptr) return NotLeader(name_ + ": this replica does not lead");
  return led->ProposeDigest([this](const LogPlace& place) { TakeDigest(place); });
}

Result<ReplicaDigest> Replica::DigestAt(const LogPlace& place) const {
  const bool has_come = applied() >= place.index;
  TOPICDB_RETURN_IF_ERROR(failure());
  auto digest = digester_.Find(place);
  if (!has_come && digest.status().code() == Code::kNotFound) {
    return Stale(name_ + " has not come to entry " + std::to_string(place.index));
  }
  return digest;
}

void Replica::ApplyNext() {
  KeptEntry entry;
  {
    const MutexLock lock(mutex_);
    entry = std::move(to_apply_.front());
    to_apply_.pop_front();
  }
  const std::uint64_t before = copy_.replicated().applied().index;
  bool leads = false;
  if (!entry.bytes.empty() && entry.place.index > before) {
    const Status applied = copy_.replicated().Apply(entry.place, entry.bytes.view());
    if (!applied.ok()) return Damage(applied);
    const meta::Applied after = copy_.replicated().applied();
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

void Replica::TakeOver(const LogPlace& began) {
  const auto reign = std::make_shared<Reign>(
      &site_, options_.group, began, options_.commit_patience, [this] { Wake(); }, options_.format);
  {
    const MutexLock lock(mutex_);
    SetState(ReplicaState::kTakingOver);
    reign_ = reign;
    for (KeptEntry& entry : to_apply_) reign->Pass(std::move(entry));
    to_apply_.clear();
    // Lead may write, and the site may be about to install a snapshot, for which it waits.
    if (MustGiveUp()) return;
  }
  if (const Status led = copy_.replicated().Lead(reign); !led.ok()) {
    const Code code = led.code();
    if (code != Code::kNotLeader && code != Code::kUnknownOutcome) return Damage(led);
    reign->End(led);
    return;  // Work gives up
  }
  const MutexLock lock(mutex_);
  SetState(ReplicaState::kLeading);
  led_ = copy_.replicated().led();
  changed_.NotifyAll();
}

void Replica::GiveUp() {
  {
    const MutexLock lock(mutex_);
    SetState(ReplicaState::kGivingUp);
    led_.reset();
    reign_->End(NotLeader("this replica leads no more"));
  }
  if (const Status follows = copy_.replicated().Follow(); !follows.ok()) Damage(follows);
  const std::uint64_t applied = copy_.replicated().applied().index;
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  const bool is_whole = damage().ok();
  if (is_whole) {
    to_apply_ = reign_->TakeRest(applied);
    applied_ = applied;
  }
  reign_.reset();
  SetState(is_whole ? ReplicaState::kFollowing : ReplicaState::kHealing);
  changed_.NotifyAll();
}

void Replica::Fail(const Status& why) {
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = why.WithContext(name_ + " takes part no more");
  SetState(ReplicaState::kFailed);
  led_.reset();
  if (reign_ != nullptr) reign_->End(failure_);
  to_apply_.clear();
  changed_.NotifyAll();
  environment_->commits->Notify();
}

Status Replica::Close() {
  // What is queued is committed while it can be, by this replica or at the one that leads.
  if (const auto queued = shard(); queued != nullptr) queued->FinishQueue();
  bool leads = false;
  {
    const MutexLock lock(mutex_);
    leads = position_.role == RaftRole::kLeader && failure_.ok();
  }
  if (leads) starter_.LetAnotherLead();
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (worker_.joinable()) worker_.join();
  starter_.Stop();
  carrier_.Stop();
  healer_.Stop();
  digester_.Stop();
  const Status closed = copy_.Close();
  site_.Leave(options_.group);
  // What closing would have written only saves the next opening some work.
  const bool led_no_more =
      closed.code() == Code::kNotLeader || closed.code() == Code::kUnknownOutcome;
  return led_no_more ? Status::Ok() : closed;
}

}  // namespace topicdb::replication
