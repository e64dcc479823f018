// The log of a shard that no other machine follows: RocksDB's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <rocksdb/db.h>

#include "base/thread/mutex.h"
#include "rocks/log/shard_log.h"

namespace topicdb::rocks {

// Returns OK if the directory of an open RocksDB is still the one that was opened; see
// ShardLog::CheckInPlace. `name` is that of the shard, for messages.
Status CheckShardInPlace(const rocksdb::DB& db, const std::string& name);

// Writes to a RocksDB, and numbers the writes to its log, from its opening on: CheckLogs finds gaps
// by these numbers. Whoever has the RocksDB open for writing owns it. Thread-safe: threads write
// one after the other, because RocksDB would make one record of concurrent writes.
class LocalLog : public ShardLog {
 public:
  // `name` is that of the shard, for messages. `db` must outlive the log.
  LocalLog(rocksdb::DB* db, std::string name);

  Status Write(const ShardEntry& entry, rocksdb::WriteBatch* batch) override
      TOPICDB_EXCLUDES(mutex_);
  Status Sync() override;
  Status CheckInPlace() const override;
  Status MayWrite() const override { return Status::Ok(); }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  rocksdb::DB* const db_;
  const std::string name_;
  const std::uint32_t session_;  // see CommitLink
  std::atomic<std::uint64_t> bytes_{0};
  Mutex mutex_;
  std::uint64_t next_ TOPICDB_GUARDED_BY(mutex_) = 0;  // number of the next batch
};

}  // namespace topicdb::rocks
