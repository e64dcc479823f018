// The log of a shard of which other sites have replicas.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/thread/mutex.h"
#include "replication/entry.h"
#include "replication/replicated_log.h"
#include "replication/unlogged_rocks.h"
#include "rocks/log/shard_log.h"

namespace topicdb::replication {

// Makes an entry of the replicated log of each batch, and writes the batch to the RocksDB of this
// replica once the log has the entry. So every batch is durable when Write returns, whatever
// durability was asked for. The shard owns it in a term in which this replica leads, together with
// those who are still writing to it. Thread-safe: threads write one after the other.
//
// Write and PrepareDrop return kNotLeader or kUnknownOutcome once another replica may lead.
class ReplicatedShardLog : public rocks::ShardLog {
 public:
  // REQUIRES: the last entry that `rocks` has applied is the one with which this replica began to
  // lead, or one that it has made since
  ReplicatedShardLog(std::shared_ptr<ReplicatedLog> log, std::shared_ptr<UnloggedRocks> rocks)
      : log_(std::move(log)), rocks_(std::move(rocks)) {}

  Status Write(const rocks::ShardEntry& entry, rocksdb::WriteBatch* batch) override
      TOPICDB_EXCLUDES(mutex_);
  Status Sync() override { return Status::Ok(); }
  Status CheckInPlace() const override;
  Status MayWrite() const override { return log_->MayWrite(); }
  std::uint64_t bytes() const override { return bytes_; }
  // Nobody reads a commit before a majority has it.
  bool reserves_serials() const override { return false; }
  // The next entry has the other replicas make the families.
  void AddFamilies(const rocks::FamilyHandles& families) override TOPICDB_EXCLUDES(mutex_);
  // Also makes an entry that drops the families in the other replicas.
  Status PrepareDrop(const rocks::FamilyHandles& families) override TOPICDB_EXCLUDES(mutex_);
  // Returns all families: the note of the last entry must not be in files without what it did.
  rocks::FamilyHandles FlushedWith(rocks::FamilyHandles families) const override;

  // Makes an entry at which all replicas say what they have. Calls `take` when everything up to it
  // is written here, and nothing after it. Returns its place, or what Write returns.
  Result<LogPlace> ProposeDigest(const std::function<void(const LogPlace&)>& take)
      TOPICDB_EXCLUDES(mutex_);
  // Returns when no write is under way.
  // REQUIRES (AwaitWrites): the replicated log takes no more entries
  void AwaitWrites() TOPICDB_EXCLUDES(mutex_) { const MutexLock lock(mutex_); }

 private:
  // Adds the families to the entry that no entry has named yet.
  void AnnounceFamilies(Entry* entry) TOPICDB_REQUIRES(mutex_);
  // Proposes the entry, which gets the next number, and writes the batch to RocksDB.
  Result<LogPlace> ProposeAndWrite(Entry* entry, std::optional<Serial> serial,
                                   rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(mutex_);

  const std::shared_ptr<ReplicatedLog> log_;
  const std::shared_ptr<UnloggedRocks> rocks_;
  std::atomic<std::uint64_t> bytes_{0};
  Mutex mutex_;
  // A slab needs all its families, also those that no batch names for long.
  std::map<std::uint32_t, SlabFamily> unannounced_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb::replication
