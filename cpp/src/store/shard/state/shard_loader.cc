#include "store/shard/state/shard_loader.h"

#include <optional>
#include <utility>

#include "rocks/local_log.h"
#include "store/shard/state/reader_loader.h"
#include "store/shard/state/record_reader.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb {

namespace {

// Loads one shard, once. Not thread-safe.
class ShardLoader {
 public:
  ShardLoader(const std::shared_ptr<const ShardEnvironment>& environment, std::uint32_t index)
      : environment_(*environment), directory_(ShardDirectory(environment->directory, index)) {
    found_.state = std::make_unique<ShardState>(environment, index);
    shard_ = found_.state.get();
  }

  Result<LoadedShard> Run(ShardUse use) {
    const bool create =
        use == ShardUse::kCreate || (use == ShardUse::kFollow && !Exists(directory_ + "/CURRENT"));
    if (!environment_.read_only && use != ShardUse::kFollow) {
      TOPICDB_ASSIGN_OR_RETURN(shard_->directory_lock, LockShard(environment_, shard_->index));
    }
    TOPICDB_ASSIGN_OR_RETURN(ShardRocks rocks, OpenShardRocks(environment_, shard_->index, create));
    shard_->db = std::move(rocks.db);
    shard_->default_family = std::move(rocks.default_family);
    shard_->families.Add(rocks.families);
    records_.emplace(shard_->db.get(), shard_->Name());
    TOPICDB_RETURN_IF_ERROR(OpenLog());
    TOPICDB_RETURN_IF_ERROR(Load(use));
    return std::move(found_);
  }

 private:
  // A replicated shard is made by the entries of its log. So a replica may have a RocksDB without
  // an identity, and after a crash one without slabs.
  Status Load(ShardUse use) {
    const MutexLock lock(shard_->mutex);
    TOPICDB_ASSIGN_OR_RETURN(const bool is_made, records_->Has(meta::IdentityKey()));
    const bool is_replicated = environment_.open_log && !environment_.read_only;
    if (is_made || (use != ShardUse::kCreate && !is_replicated)) {
      TOPICDB_RETURN_IF_ERROR(LoadToRead(shard_, &found_.slabs));
    }
    if (environment_.read_only || use == ShardUse::kFollow) return Status::Ok();
    TOPICDB_ASSIGN_OR_RETURN(found_.writer, LoadToWrite(shard_, found_.slabs));
    return Status::Ok();
  }

  // A database that is only read has RocksDB's log, whatever log its writer has: it writes nothing.
  Status OpenLog() {
    if (environment_.open_log && !environment_.read_only) {
      TOPICDB_ASSIGN_OR_RETURN(
          auto log,
          environment_.open_log({shard_->db.get(), shard_->Name(), *shard_->default_family,
                                 &shard_->families, environment_.resources}));
      shard_->SetLog(std::move(log));
      return Status::Ok();
    }
    if (!environment_.read_only) TOPICDB_RETURN_IF_ERROR(CheckNotReplicated());
    shard_->SetLog(std::make_shared<rocks::LocalLog>(shard_->db.get(), shard_->Name()));
    return Status::Ok();
  }

  // A write that the replicated log does not have would make this replica differ from the others.
  Status CheckNotReplicated() const {
    TOPICDB_ASSIGN_OR_RETURN(const bool is_replicated, records_->Has(meta::AppliedKey()));
    if (!is_replicated) return Status::Ok();
    return ReadOnly(shard_->Name() +
                    " is one of several replicas, so only its site may write it: "
                    "read it with mode='r', or write to the database by way of its site");
  }

  const ShardEnvironment& environment_;
  const std::string directory_;
  LoadedShard found_;
  ShardState* shard_;  // that of found_
  std::optional<RecordReader> records_;
};

}  // namespace

Result<LoadedShard> LoadShard(const std::shared_ptr<const ShardEnvironment>& environment,
                              std::uint32_t index, ShardUse use) {
  return ShardLoader(environment, index).Run(use);
}

}  // namespace topicdb
