// The log of a shard of which other sites have replicas.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/thread/mutex.h"
#include "replication/entry.h"
#include "replication/replicated_log.h"
#include "replication/unlogged_rocks.h"
#include "rocks/log/shard_log.h"

namespace topicdb::replication {

// Makes an entry of the replicated log of each batch, and writes the batch to the RocksDB of this
// replica once the log has the entry. So every batch is durable when Write returns, whatever
// durability was asked for. The shard owns it while this replica leads. Thread-safe: threads write
// one after the other.
class ReplicatedShardLog : public rocks::ShardLog {
 public:
  // Begins to lead: from now on, no entry of an earlier leader counts. `log` must outlive it.
  // REQUIRES: `rocks` has applied all entries of the log. Returns kStorage.
  static Result<std::unique_ptr<ReplicatedShardLog>> Lead(ReplicatedLog* log,
                                                          std::unique_ptr<UnloggedRocks> rocks);

  Status Write(const rocks::ShardEntry& entry, rocksdb::WriteBatch* batch) override
      TOPICDB_EXCLUDES(mutex_);
  Status Sync() override { return Status::Ok(); }
  Status CheckInPlace() const override;
  Status MayWrite() const override { return Status::Ok(); }
  std::uint64_t bytes() const override { return bytes_; }
  void AddFamilies(const rocks::FamilyHandles& families) override;
  // Also makes an entry that drops the families in the other replicas.
  Status PrepareDrop(const rocks::FamilyHandles& families) override TOPICDB_EXCLUDES(mutex_);
  // Returns all families: the note of the last entry must not be in files without what it did.
  rocks::FamilyHandles FlushedWith(rocks::FamilyHandles families) const override;

  meta::Applied applied() const { return rocks_->applied(); }

 private:
  ReplicatedShardLog(ReplicatedLog* log, std::unique_ptr<UnloggedRocks> rocks)
      : log_(*log), rocks_(std::move(rocks)) {}

  // Proposes the entry, which gets the next number, and writes the batch to RocksDB.
  Status ProposeAndWrite(Entry* entry, std::optional<Serial> serial, rocksdb::WriteBatch* batch)
      TOPICDB_REQUIRES(mutex_);

  ReplicatedLog& log_;
  const std::unique_ptr<UnloggedRocks> rocks_;
  std::atomic<std::uint64_t> bytes_{0};
  Mutex mutex_;
};

}  // namespace topicdb::replication
