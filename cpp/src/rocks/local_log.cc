#include "rocks/local_log.h"

#include <random>
#include <utility>

#include "rocks/files/open_directories.h"
#include "rocks/log/commit_link.h"
#include "rocks/rocks_compat.h"

namespace topicdb::rocks {

namespace {

rocksdb::WriteOptions OptionsOf(const ShardEntry& entry) {
  rocksdb::WriteOptions options;
  options.disableWAL = entry.durability == EntryDurability::kMemory;
  options.sync = entry.durability == EntryDurability::kDisk;
  // The slab may be dropped meanwhile. If that made the write fail, RocksDB would take no more
  // writes.
  options.ignore_missing_column_families = entry.kind == EntryKind::kData;
  return options;
}

}  // namespace

Status CheckShardInPlace(const rocksdb::DB& db, const std::string& name) {
  Status status = ProcessOpenDirectories().CheckLog(db.GetName());
  if (status.ok()) return status;
  return StorageFault(name + " was removed or replaced while it was open, so nothing that is " +
                      "written here is kept (" + status.message() + ")");
}

LocalLog::LocalLog(rocksdb::DB* db, std::string name)
    : db_(db), name_(std::move(name)), session_(std::random_device()()) {}

Status LocalLog::Write(const ShardEntry& entry, rocksdb::WriteBatch* batch) {
  const MutexLock lock(mutex_);
  rocksdb::Status status;
  if (entry.durability != EntryDurability::kMemory) {
    status = batch->PutLogData(Encode({next_, session_}));
    if (status.ok()) ++next_;
  }
  bytes_ += batch->GetDataSize();
  if (status.ok()) status = db_->Write(OptionsOf(entry), batch);
  return status.ok() ? Status::Ok() : FromRocks(status, "writing " + name_);
}

Status LocalLog::Sync() {
  const rocksdb::Status status = db_->SyncWAL();
  return status.ok() ? Status::Ok() : FromRocks(status, "fsyncing the log of " + name_);
}

Status LocalLog::CheckInPlace() const { return CheckShardInPlace(*db_, name_); }

}  // namespace topicdb::rocks
