#include "store/care/detached_copy.h"

#include <optional>
#include <string>
#include <utility>

#include <rocksdb/write_batch.h>

#include "rocks/local_log.h"
#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"
#include "store/shard/state/record_reader.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb {

namespace {

Result<DetachedCopy> Detach(rocksdb::DB* db, const std::string& name) {
  const RecordReader records(db, name);
  DetachedCopy copy;
  meta::CommitState state;
  TOPICDB_RETURN_IF_ERROR(records.Read(meta::CommitStateKey(), "commit state", &state));
  copy.serial = state.serial;
  state.serial_limit = state.serial;  // no commit can be missing, as after a crash without the log
  TOPICDB_ASSIGN_OR_RETURN(const auto noted,
                           records.Find(meta::ReplicatedRulesKey(), "retention rules"));
  if (noted.has_value()) {
    auto rules = DecodeRetention(*noted, "the record of its retention rules");
    TOPICDB_RETURN_IF_ERROR(rules.status().WithContext(name));
    copy.rules = std::make_shared<const RetentionRules>(std::move(*rules));
  }
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.Put(meta::CommitStateKey(), meta::Encode(state));
  if (status.ok()) status = batch.Delete(meta::AppliedKey());
  if (status.ok()) status = batch.Delete(meta::ReplicatedRulesKey());
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "copying " + name));
  rocks::LocalLog log(db, name);
  TOPICDB_RETURN_IF_ERROR(
      log.Write({rocks::EntryKind::kNumbers, rocks::EntryDurability::kDisk}, &batch));
  return copy;
}

}  // namespace

Result<DetachedCopy> DetachCopy(const ShardEnvironment& environment, std::uint32_t shard) {
  const std::string name = environment.NameOfShard(shard);
  TOPICDB_ASSIGN_OR_RETURN(ShardRocks rocks, OpenShardRocks(environment, shard, /*create=*/false));
  auto copy = Detach(rocks.db.get(), name);
  rocks.default_family.reset();
  rocks.families.clear();
  const Status closed = rocks::FromRocks(rocks.db->Close(), "closing the copy of " + name);
  TOPICDB_RETURN_IF_ERROR(copy.status());
  TOPICDB_RETURN_IF_ERROR(closed);
  return copy;
}

}  // namespace topicdb
