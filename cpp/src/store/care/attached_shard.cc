#include "store/care/attached_shard.h"

#include <string>

#include <rocksdb/write_batch.h>

#include "rocks/local_log.h"
#include "rocks/rocks_compat.h"
#include "store/catalog/retention_file.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb {

namespace {

Status Attach(rocksdb::DB* db, const std::string& name, const ShardEnvironment& environment,
              const meta::Applied& applied) {
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.Put(meta::AppliedKey(), meta::Encode(applied));
  if (status.ok()) {
    status = batch.Put(meta::ReplicatedRulesKey(), EncodeRetention(*environment.rules()));
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "converting " + name));
  rocks::LocalLog log(db, name);
  return log.Write({rocks::EntryKind::kNumbers, rocks::EntryDurability::kDisk}, &batch);
}

}  // namespace

Status AttachShard(const ShardEnvironment& environment, std::uint32_t shard,
                   const meta::Applied& applied) {
  const std::string name = environment.NameOfShard(shard);
  TOPICDB_ASSIGN_OR_RETURN(const auto lock, LockShard(environment, shard));
  TOPICDB_ASSIGN_OR_RETURN(ShardRocks rocks, OpenShardRocks(environment, shard, /*create=*/false));
  const Status attached = Attach(rocks.db.get(), name, environment, applied);
  rocks.default_family.reset();
  rocks.families.clear();
  const Status closed = rocks::FromRocks(rocks.db->Close(), "closing " + name);
  return attached.ok() ? closed : attached;
}

}  // namespace topicdb
