#include "replication/replica/replica_copy.h"

#include <utility>

#include "replication/snapshot/shard_copies.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb::replication {

namespace {

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

ReplicaCopy::ReplicaCopy(std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index,
                         std::function<void(const LogPlace&)> at_digest)
    : environment_(std::move(environment)),
      index_(index),
      shard_directory_(ShardDirectory(environment_->directory, index)),
      at_digest_(std::move(at_digest)),
      retired_(shard_directory_) {}

Result<std::optional<DamageNote>> ReplicaCopy::Open(std::shared_ptr<ShardLeader> leader,
                                                    bool heals) {
  leader_ = std::move(leader);
  TOPICDB_ASSIGN_OR_RETURN(lock_, LockShard(*environment_, index_));
  TOPICDB_ASSIGN_OR_RETURN(auto note, Prepare());
  if (const Status opened = OpenCopy(); !opened.ok()) {
    if (opened.code() != Code::kCorruption || (!heals && !note.has_value())) return opened;
    TOPICDB_RETURN_IF_ERROR(OpenEmpty(opened.message()));
    TOPICDB_ASSIGN_OR_RETURN(note, LoadDamageNote(shard_directory_));
  }
  if (!note.has_value()) TOPICDB_RETURN_IF_ERROR(RemoveTree(RefillDirectory(shard_directory_)));
  GiveOut();
  return note;
}

Result<std::optional<DamageNote>> ReplicaCopy::Prepare() {
  TOPICDB_ASSIGN_OR_RETURN(auto note, LoadDamageNote(shard_directory_));
  const std::string name = environment_->NameOfShard(index_);
  if (note.has_value() && NameOf(FollowLink(shard_directory_)) != note->copy) {  // it was healed
    TOPICDB_RETURN_IF_ERROR(FinishDamage(shard_directory_, note->copy).WithContext(name));
    note.reset();
  }
  TOPICDB_RETURN_IF_ERROR(PrepareCopies(shard_directory_).WithContext(name));
  directory_ = FollowLink(shard_directory_);
  if (note.has_value() && !IsDirectory(directory_)) {  // a crash came in OpenEmpty
    note->is_aside = true;
    TOPICDB_RETURN_IF_ERROR(StoreDamageNote(shard_directory_, *note));
    TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory_));
  }
  return note;
}

Status ReplicaCopy::OpenCopy() {
  TOPICDB_RETURN_IF_ERROR(CheckCopy(directory_));
  // If the manifest does not know some tables, a crash came before it did, and the log has their
  // entries; or it has forgotten them, and the log may not. The replica finds that out when it
  // joins its group.
  TOPICDB_ASSIGN_OR_RETURN(replicated_, ReplicatedShard::Open(environment_, index_, leader_));
  return Status::Ok();
}

Status ReplicaCopy::OpenEmpty(std::string_view why) {
  TOPICDB_RETURN_IF_ERROR(NoteDamage(why));
  const std::string name = NameOf(directory_);
  TOPICDB_RETURN_IF_ERROR(MoveAside(shard_directory_, name));
  TOPICDB_RETURN_IF_ERROR(StoreDamageNote(shard_directory_, {name, true, std::string(why)}));
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory_));
  return OpenCopy();
}

Status ReplicaCopy::NoteDamage(std::string_view why) {
  return StoreDamageNote(shard_directory_, {NameOf(directory_), false, std::string(why)});
}

Status ReplicaCopy::TakeRefill(std::uint64_t index) {
  TOPICDB_RETURN_IF_ERROR(
      InstallRefill(RefillDirectory(shard_directory_), shard_directory_, index));
  return TakeSnapshot(index);
}

Status ReplicaCopy::TakeSnapshot(std::uint64_t index) {
  TOPICDB_ASSIGN_OR_RETURN(auto opened, ReplicatedShard::Open(environment_, index_, leader_));
  if (opened->applied().index != index) {
    return Corruption("the snapshot is not that of entry " + std::to_string(index));
  }
  retired_.Add(std::exchange(replicated_, std::move(opened)), directory_, shard());
  directory_ = FollowLink(shard_directory_);
  GiveOut();
  return Status::Ok();
}

std::shared_ptr<Shard> ReplicaCopy::Await(const std::function<bool(const Shard&)>& is_wanted,
                                          std::chrono::milliseconds patience,
                                          const std::function<bool()>& is_over) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  CommitSignal& commits = *environment_->commits;
  for (;;) {
    const std::uint64_t seen = commits.count();
    const bool is_last = is_over();  // then the replica may be closed, which takes the shard away
    std::shared_ptr<Shard> now = shard();
    if (now != nullptr && is_wanted(*now)) return now;
    if (is_last || std::chrono::steady_clock::now() >= deadline) return nullptr;
    commits.WaitUntil(seen, deadline);
  }
}

void ReplicaCopy::GiveOut() {
  replicated_->AtDigest(at_digest_);
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

Status ReplicaCopy::Close() {
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
  return closed;
}

}  // namespace topicdb::replication
