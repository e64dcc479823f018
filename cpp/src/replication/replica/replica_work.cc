// What the threads of a replica do.
#include <algorithm>
#include <utility>

#include "base/file/files.h"
#include "replication/raft/hand_over.h"
#include "replication/replica/replica.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb::replication {

namespace {

// How long a replica that hands over waits for another one to lead.
constexpr std::chrono::milliseconds kHandOverPatience(2'000);
// How long it waits before it proposes again what was not answered.
constexpr std::chrono::milliseconds kProposeAgainAfter(100);
// How long it waits before it tries to hand over again.
constexpr std::chrono::milliseconds kHandOverAgainAfter(1'000);
// How often it looks whether somebody still has a shard that a snapshot has replaced.
constexpr std::chrono::milliseconds kRetiredInterval(500);

}  // namespace

bool Replica::MustGiveUp() const {
  return position_.role != RaftRole::kLeader || position_.term != reign_->term() ||
         reign_->is_over();
}

void Replica::Work() {
  for (;;) {
    switch (AwaitStep()) {
      case Step::kEnd:
        return;
      case Step::kHeal:
        HealReported();
        break;
      case Step::kGiveUp:
        GiveUp();
        break;
      case Step::kInstall:
        InstallFetched();
        break;
      case Step::kRefill:
        TakeRefill();
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
    if (!reported_.ok()) return Step::kHeal;
    const bool follows = reign_ == nullptr;
    if (!failure_.ok()) {
      changed_.Wait(mutex_);
      continue;
    }
    if (!follows && MustGiveUp()) return Step::kGiveUp;
    if (follows && installs_) return Step::kInstall;
    if (follows && refilled_.has_value()) return Step::kRefill;
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
  if (!flushed.ok()) return Damage(flushed);
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
  refill_.Cancel();  // what has come heals the replica, too
  const MutexLock lock(mutex_);
  if (index.ok()) {
    if (!damage_.ok()) state_ = ReplicaState::kFollowing;
    damage_ = Status::Ok();
    refilled_.reset();
    awaits_ = 0;
    applied_ = *index;
    while (!to_apply_.empty() && to_apply_.front().place.index <= *index) to_apply_.pop_front();
  }
  installs_ = false;
  installed_ = index.status();
  changed_.NotifyAll();
}

Result<std::uint64_t> Replica::Exchange() {
  TOPICDB_ASSIGN_OR_RETURN(const SnapshotManifest manifest, carrier_.Install());
  return TakeCopy(manifest);
}

Result<std::uint64_t> Replica::TakeCopy(const SnapshotManifest& manifest) {
  TOPICDB_ASSIGN_OR_RETURN(auto opened, ReplicatedShard::Open(environment_, index_, link_));
  const std::uint64_t index = manifest.applied.index;
  if (opened->applied().index != index) {
    return Corruption("the snapshot is not that of entry " + std::to_string(index));
  }
  retired_.Add(std::exchange(replicated_, std::move(opened)), directory_, shard());
  directory_ = FollowLink(LinkToCopy());
  GiveOut();
  return index;
}

void Replica::GiveOut() {
  replicated_->AtDigest([this](const LogPlace& place) { TakeDigest(place); });
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
  std::shared_ptr<Shard> source;
  {
    const MutexLock lock(mutex_);
    TOPICDB_RETURN_IF_ERROR(failure_);
    TOPICDB_RETURN_IF_ERROR(damage_);
    source = given_;
  }
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
  const std::uint64_t before = replicated_->applied().index;
  bool leads = false;
  if (!entry.bytes.empty() && entry.place.index > before) {
    const Status applied = replicated_->Apply(entry.place, std::move(entry.bytes));
    if (!applied.ok()) return Damage(applied);
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
        has_failed = !failure_.ok() || !damage_.ok();
        const bool may_begin = state_ == ReplicaState::kFollowing || has_failed;
        if (position_.role == RaftRole::kLeader && begun_term_ != position_.term && may_begin) {
          break;
        }
        changed_.Wait(mutex_);
      }
      term = begun_term_ = position_.term;
    }
    if (has_failed) {  // a replica that applies nothing must not lead
      if (LetAnotherLead()) continue;
      const MutexLock lock(mutex_);
      if (begun_term_ == term && !closing_) {
        changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kHandOverAgainAfter);
        begun_term_ = 0;
      }
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
    if (code != Code::kNotLeader && code != Code::kUnknownOutcome) return Damage(led);
    reign->End(led);
    return;  // Work gives up
  }
  const MutexLock lock(mutex_);
  state_ = ReplicaState::kLeading;
  led_ = replicated_->led();
  changed_.NotifyAll();
}

void Replica::GiveUp() {
  {
    const MutexLock lock(mutex_);
    state_ = ReplicaState::kGivingUp;
    led_.reset();
    reign_->End(NotLeader("this replica leads no more"));
  }
  if (const Status follows = replicated_->Follow(); !follows.ok()) Damage(follows);
  const std::uint64_t applied = replicated_->applied().index;
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  if (damage_.ok()) {
    to_apply_ = reign_->TakeRest(applied);
    applied_ = applied;
  }
  reign_.reset();
  state_ = damage_.ok() ? ReplicaState::kFollowing : ReplicaState::kHealing;
  begun_term_ = 0;
  changed_.NotifyAll();
}

void Replica::Fail(const Status& why) {
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = why.WithContext(name_ + " takes part no more");
  state_ = ReplicaState::kFailed;
  led_.reset();
  if (reign_ != nullptr) reign_->End(failure_);
  to_apply_.clear();
  begun_term_ = 0;
  changed_.NotifyAll();
  environment_->commits->Notify();
}

bool Replica::LetAnotherLead() {
  // If no other one leads in time, the others elect one after their election timeout.
  return HandOver(&site_, options_.group, std::chrono::steady_clock::now() + kHandOverPatience)
      .ok();
}

}  // namespace topicdb::replication
