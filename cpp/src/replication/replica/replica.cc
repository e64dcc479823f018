#include "replication/replica/replica.h"

#include <algorithm>
#include <utility>

#include "base/file/files.h"
#include "replication/snapshot/damage_note.h"
#include "replication/snapshot/shard_copies.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb::replication {

namespace {

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Result<std::unique_ptr<Replica>> Replica::Open(RaftSite* site,
                                               std::shared_ptr<const ShardEnvironment> environment,
                                               std::uint32_t index, ReplicaOptions options) {
  std::unique_ptr<Replica> replica(
      new Replica(site, std::move(environment), index, std::move(options)));
  TOPICDB_ASSIGN_OR_RETURN(replica->lock_, LockShard(*replica->environment_, index));
  TOPICDB_RETURN_IF_ERROR(replica->OpenShard());
  TOPICDB_RETURN_IF_ERROR(replica->JoinGroup());
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
      retired_(ShardDirectory(environment_->directory, index)),
      flushed_at_(std::chrono::steady_clock::now()),
      digester_([this](const Status& why) { ReportDamage(why); }),
      carrier_(site, options_.group, ShardDirectory(environment_->directory, index),
               [this](const std::string& directory) { return MakeSource(directory); }),
      refill_(site, options_.group, ShardDirectory(environment_->directory, index),
              [this](SnapshotManifest manifest) {
                const MutexLock lock(mutex_);
                refilled_ = std::move(manifest);
                changed_.NotifyAll();
              }),
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
  while (applied_ < index && reign_ == nullptr && failure_.ok() && damage_.ok() && !closing_) {
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
  // A write that was under way when the damage was found still waits for its entry.
  if (!damage_.ok() && reign_ == nullptr) return;
  for (const CommittedEntry& entry : entries) {
    if (awaits_ != 0 && entry.place.index != awaits_) continue;
    awaits_ = 0;
    if (damage_.ok()) unflushed_bytes_ += entry.bytes.size();
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

std::string Replica::LinkToCopy() const { return ShardDirectory(environment_->directory, index_); }

Status Replica::OpenShard() {
  const std::string link = LinkToCopy();
  TOPICDB_ASSIGN_OR_RETURN(auto note, LoadDamageNote(link));
  if (note.has_value() && NameOf(FollowLink(link)) != note->copy) {  // it was healed
    TOPICDB_RETURN_IF_ERROR(FinishDamage(link, note->copy).WithContext(name_));
    note.reset();
  }
  TOPICDB_RETURN_IF_ERROR(PrepareCopies(link).WithContext(name_));
  directory_ = FollowLink(link);
  if (note.has_value() && !IsDirectory(directory_)) {  // a crash came in OpenEmpty
    TOPICDB_RETURN_IF_ERROR(StoreDamageNote(link, {note->copy, true, note->why}));
    TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory_));
  }
  Status damage = note.has_value() ? Corruption(note->why) : Status::Ok();
  if (Status opened = OpenCopy(); !opened.ok()) {
    if (opened.code() != Code::kCorruption || (!options_.heals && damage.ok())) return opened;
    TOPICDB_RETURN_IF_ERROR(OpenEmpty(opened));
    damage = std::move(opened);
  }
  if (damage.ok()) TOPICDB_RETURN_IF_ERROR(RemoveTree(link + ".refill"));
  GiveOut();
  const MutexLock lock(mutex_);
  applied_ = replicated_->applied().index;
  files_have_shard_ = IsMade();
  damage_ = std::move(damage);
  if (!damage_.ok()) state_ = ReplicaState::kHealing;
  return Status::Ok();
}

Status Replica::OpenCopy() {
  TOPICDB_RETURN_IF_ERROR(CheckCopy(directory_));
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory_));
  const bool has_tables = std::any_of(
      names.begin(), names.end(), [](const std::string& name) { return name.ends_with(".sst"); });
  TOPICDB_ASSIGN_OR_RETURN(replicated_, ReplicatedShard::Open(environment_, index_, link_));
  // Every table has come with the note of an entry. So the manifest has forgotten it.
  if (!has_tables || replicated_->applied().index != 0) return Status::Ok();
  replicated_->Close().IgnoreError();
  replicated_.reset();
  return Corruption(name_ + ": " + directory_ + " has tables that its manifest does not know");
}

Status Replica::OpenEmpty(const Status& why) {
  const std::string link = LinkToCopy();
  DamageNote note{NameOf(directory_), false, why.message()};
  TOPICDB_RETURN_IF_ERROR(StoreDamageNote(link, note));
  TOPICDB_RETURN_IF_ERROR(MoveAside(link, note.copy));
  note.is_aside = true;
  TOPICDB_RETURN_IF_ERROR(StoreDamageNote(link, note));
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory_));
  return OpenCopy();
}

Status Replica::JoinGroup() {
  std::optional<std::uint64_t> applied;
  if (damage().ok()) applied = this->applied();
  Status joined = site_.Join(options_.group, options_.voters, applied, this);
  if (joined.code() == Code::kCorruption && applied.has_value() && options_.heals) {
    TOPICDB_RETURN_IF_ERROR(
        StoreDamageNote(LinkToCopy(), {NameOf(directory_), false, joined.message()}));
    {
      const MutexLock lock(mutex_);
      damage_ = joined;
      state_ = ReplicaState::kHealing;
    }
    joined = site_.Join(options_.group, options_.voters, std::nullopt, this);
  }
  TOPICDB_RETURN_IF_ERROR(joined.WithContext(name_));
  if (!damage().ok()) refill_.Begin();
  return Status::Ok();
}

Status Replica::damage() const {
  const MutexLock lock(mutex_);
  return damage_;
}

Status Replica::Heal() {
  TOPICDB_ASSIGN_OR_RETURN(const RaftStatus status, site_.StatusOf(options_.group));
  if (status.members.size() < 2) {
    return ClusterFault(name_ + ": no other site has a replica from which it could be filled");
  }
  const MutexLock lock(mutex_);
  if (failure_.code() != Code::kCorruption) TOPICDB_RETURN_IF_ERROR(failure_);
  if (damage_.ok()) reported_ = Corruption("somebody has asked to fill it anew");
  changed_.NotifyAll();
  return Status::Ok();
}

Status Replica::AwaitHealed(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  for (;;) {
    TOPICDB_RETURN_IF_ERROR(failure_);
    if (damage_.ok()) return Status::Ok();
    if (closing_ || std::chrono::steady_clock::now() >= deadline) {
      return Stale(name_ + " was damaged, and has not come from another site within " +
                   std::to_string(patience.count()) + " ms: wait for it (" + damage_.message() +
                   ")");
    }
    changed_.WaitUntil(mutex_, deadline);
  }
}

void Replica::ReportDamage(const Status& why) {
  const MutexLock lock(mutex_);
  if (!options_.heals || heals_left_ == 0 || !failure_.ok() || !damage_.ok()) return;
  reported_ = why;
  changed_.NotifyAll();
}

void Replica::HealReported() {
  Status why;
  {
    const MutexLock lock(mutex_);
    std::swap(why, reported_);
    if (!damage_.ok()) return;
  }
  BeginToHeal(why);
}

void Replica::Damage(const Status& why) {
  {
    const MutexLock lock(mutex_);
    if (!damage_.ok()) return;
  }
  bool heals = options_.heals && why.code() == Code::kCorruption;
  if (heals) {
    const MutexLock lock(mutex_);
    heals = failure_.ok() && heals_left_ > 0;
  }
  heals ? BeginToHeal(why) : Fail(why);
}

void Replica::BeginToHeal(const Status& why) {
  const Status noted = StoreDamageNote(LinkToCopy(), {NameOf(directory_), false, why.message()});
  if (!noted.ok()) return Fail(noted);
  {
    const MutexLock lock(mutex_);
    --heals_left_;
    damage_ = why;
    failure_ = Status::Ok();
    state_ = ReplicaState::kHealing;
    led_.reset();
    if (reign_ != nullptr) reign_->End(NotLeader(name_ + " is damaged here: " + why.message()));
    to_apply_.clear();
    unflushed_bytes_ = 0;
    begun_term_ = 0;
    changed_.NotifyAll();
  }
  environment_->commits->Notify();
  refill_.Begin();
}

void Replica::TakeRefill() {
  std::optional<SnapshotManifest> manifest;
  {
    const MutexLock lock(mutex_);
    manifest.swap(refilled_);
    if (damage_.ok()) return;
  }
  const std::string link = LinkToCopy();
  const Status put = InstallRefill(link + ".refill", link, manifest->applied.index);
  const Result<std::uint64_t> index = put.ok() ? TakeCopy(*manifest) : put;
  if (!index.ok()) return Fail(index.status());
  {
    const MutexLock lock(mutex_);
    applied_ = *index;
    awaits_ = *index + 1;
    damage_ = Status::Ok();
    files_have_shard_ = IsMade();
  }
  site_.NoteRefilled(options_.group, *index);
  const MutexLock lock(mutex_);
  if (failure_.ok()) state_ = ReplicaState::kFollowing;
  begun_term_ = 0;
  changed_.NotifyAll();
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
  refill_.Stop();
  digester_.Stop();
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
