#include "replication/follower.h"

#include <optional>
#include <utility>

namespace topicdb::replication {

Result<std::unique_ptr<Follower>> Follower::Open(
    std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index) {
  const std::string name = "shard " + std::to_string(index) + " of " + environment->database_path;
  // A crash may have come before RocksDB was made. Then the log has all its entries still.
  const bool create = !Exists(ShardDirectory(environment->directory, index) + "/CURRENT");
  TOPICDB_ASSIGN_OR_RETURN(ShardRocks opened, OpenShardRocks(*environment, index, create));
  std::unique_ptr<Follower> follower(new Follower(std::move(environment), std::move(opened), name));
  TOPICDB_ASSIGN_OR_RETURN(follower->rocks_, UnloggedRocks::Make(follower->shard_));
  return follower;
}

Follower::Follower(std::shared_ptr<const ShardEnvironment> environment, ShardRocks opened,
                   const std::string& name)
    : environment_(std::move(environment)),
      opened_(std::move(opened)),
      shard_{opened_.db.get(), name, *opened_.default_family, &opened_.families,
             environment_->resources} {}

Status Follower::Apply(const LogPlace& place, std::string bytes) {
  auto whole = parts_.Add(std::move(bytes));
  TOPICDB_RETURN_IF_ERROR(
      whole.status().WithContext(shard_.name + ", entry " + std::to_string(place.index)));
  if (!whole->has_value()) return Status::Ok();
  return EntryApplier(shard_, rocks_.get()).Apply(place, **whole);
}

Status Follower::Close() {
  if (opened_.db == nullptr) return Status::Ok();
  // RocksDB would close without an error if it failed to do this.
  const Status flushed = rocks_ == nullptr ? Status::Ok() : rocks_->Flush();
  rocks_.reset();
  opened_.families.clear();
  opened_.default_family.reset();
  const Status closed = rocks::FromRocks(opened_.db->Close(), "closing " + shard_.name);
  opened_.db.reset();
  opened_.directory_lock.reset();
  return flushed.ok() ? closed : flushed;
}

}  // namespace topicdb::replication
