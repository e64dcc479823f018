#include "store/care/shard_attachment.h"

#include <optional>
#include <string>
#include <utility>

#include <rocksdb/write_batch.h>

#include "rocks/local_log.h"
#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"
#include "store/job/staged_records.h"
#include "store/shard/state/record_reader.h"
#include "store/shard/state/shard_rocks.h"

namespace topicdb {

namespace {

// Writes a batch of records durably.
Status Write(rocksdb::DB* db, const std::string& name, rocksdb::WriteBatch* batch) {
  rocks::LocalLog log(db, name);
  return log.Write({rocks::EntryKind::kNumbers, rocks::EntryDurability::kDisk}, batch);
}

// Opens the RocksDB of a shard, has it changed, and closes it again.
template <typename Change>
Status ChangeShard(const ShardEnvironment& environment, std::uint32_t shard, Change change) {
  const std::string name = environment.NameOfShard(shard);
  TOPICDB_ASSIGN_OR_RETURN(ShardRocks rocks, OpenShardRocks(environment, shard, /*create=*/false));
  const Status changed = change(rocks.db.get(), name);
  rocks.default_family.reset();
  rocks.families.clear();
  const Status closed = rocks::FromRocks(rocks.db->Close(), "closing " + name);
  return changed.ok() ? closed : changed;
}

Status Attach(rocksdb::DB* db, const std::string& name, const RetentionRules& rules,
              const meta::Applied& applied) {
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.Put(meta::AppliedKey(), meta::Encode(applied));
  if (status.ok()) status = batch.Put(meta::ReplicatedRulesKey(), EncodeRetention(rules));
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "converting " + name));
  return Write(db, name, &batch);
}

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
  if (status.ok()) {
    status = batch.DeleteRange(db->DefaultColumnFamily(), StagedPrefix(), StagedEnd());
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "copying " + name));
  TOPICDB_RETURN_IF_ERROR(Write(db, name, &batch));
  return copy;
}

}  // namespace

Result<DetachedCopy> DetachCopy(const ShardEnvironment& environment, std::uint32_t shard) {
  DetachedCopy copy;
  TOPICDB_RETURN_IF_ERROR(
      ChangeShard(environment, shard, [&](rocksdb::DB* db, const std::string& name) {
        TOPICDB_ASSIGN_OR_RETURN(copy, Detach(db, name));
        return Status::Ok();
      }));
  return copy;
}

Status AttachShard(const ShardEnvironment& environment, std::uint32_t shard,
                   const meta::Applied& applied) {
  TOPICDB_ASSIGN_OR_RETURN(const auto lock, LockShard(environment, shard));
  return ChangeShard(environment, shard, [&](rocksdb::DB* db, const std::string& name) {
    return Attach(db, name, *environment.rules(), applied);
  });
}

}  // namespace topicdb
