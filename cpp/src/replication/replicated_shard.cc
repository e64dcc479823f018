#include "replication/replicated_shard.h"

#include <utility>

#include "replication/entry_applier.h"
#include "replication/following_log.h"

namespace topicdb::replication {

Result<std::unique_ptr<ReplicatedShard>> ReplicatedShard::Open(
    const std::shared_ptr<const ShardEnvironment>& environment, std::uint32_t index,
    std::shared_ptr<ShardLeader> leader) {
  std::unique_ptr<ReplicatedShard> made(new ReplicatedShard());
  auto own = std::make_shared<ShardEnvironment>(*environment);
  own->leader = std::move(leader);
  own->open_log = [replicated = made.get()](
                      const OpenedShard& opened) -> Result<std::unique_ptr<rocks::ShardLog>> {
    TOPICDB_ASSIGN_OR_RETURN(replicated->rocks_, UnloggedRocks::Make(opened));
    return std::unique_ptr<rocks::ShardLog>(std::make_unique<FollowingLog>(replicated->rocks_));
  };
  TOPICDB_ASSIGN_OR_RETURN(made->shard_, Shard::OpenToFollow(std::move(own), index));
  return made;
}

Status ReplicatedShard::Apply(const LogPlace& place, std::string_view bytes) {
  const auto whole = parts_.Add(bytes);
  TOPICDB_RETURN_IF_ERROR(
      whole.status().WithContext(shard_->Name() + ", entry " + std::to_string(place.index)));
  if (!whole->has_value()) return Status::Ok();
  const OpenedShard opened = shard_->opened();
  EntryApplier applier(
      opened, rocks_.get(),
      [this](const rocksdb::WriteBatch& batch) { return shard_->Replay(batch); }, at_digest_);
  const Status applied = applier.Apply(place, **whole);
  parts_.Reset();
  return applied;
}

Status ReplicatedShard::Lead(std::shared_ptr<ReplicatedLog> log) {
  parts_.Reset();  // what the last leader has not finished counts no more
  led_ = std::make_shared<ReplicatedShardLog>(std::move(log), rocks_);
  return shard_->Lead(led_);
}

Status ReplicatedShard::Follow() {
  if (led_ == nullptr) return Status::Ok();
  led_->AwaitWrites();
  led_.reset();
  return shard_->Follow(std::make_shared<FollowingLog>(rocks_));
}

Status ReplicatedShard::Close() {
  if (shard_ == nullptr) return Status::Ok();
  const Status closed = shard_->Close();
  shard_.reset();
  led_.reset();
  rocks_.reset();
  return closed;
}

}  // namespace topicdb::replication
