// Where the writes of a shard go.
#pragma once

#include <cstdint>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// What a write of a shard does.
enum class EntryKind : std::uint8_t {
  kCommit,      // appends, transactions, what jobs have staged
  kNumbers,     // identity, reserved serials, clock, jobs that are forgotten
  kGeneration,  // slabs begin, end, are merged, and go
  kDelete,      // one step of a large delete
  kData,        // what nobody sees until an entry of another kind names it
  kSealing,     // blocks take the place of others
  kCleanup,     // removes what nobody sees
};

// How durable a write is when it returns.
enum class EntryDurability : std::uint8_t {
  kMemory,  // not in the log: gone with the process, unless it is flushed
  kLog,     // in the log: gone with the machine
  kDisk,    // in the log, fsynced
};

// What a write does, and how durable it must be.
struct ShardEntry {
  EntryKind kind = EntryKind::kCommit;
  EntryDurability durability = EntryDurability::kLog;
};

// The one interface by which a shard, its slabs and their layouts write. A log of another kind, for
// example one that other machines follow, takes the place of LocalLog behind it. The shard owns its
// log. Thread-safe.
class ShardLog {
 public:
  using Handles = std::vector<rocksdb::ColumnFamilyHandle*>;

  ShardLog() = default;
  virtual ~ShardLog() = default;
  ShardLog(const ShardLog&) = delete;
  ShardLog& operator=(const ShardLog&) = delete;

  // Writes a batch, which nobody else uses meanwhile, and may add to it. Leaves out what kData has
  // for families that were dropped meanwhile. Returns kStorage, with the name of the shard.
  virtual Status Write(const ShardEntry& entry, rocksdb::WriteBatch* batch) = 0;
  // Fsyncs everything that was written to the log. Returns kStorage if that fails.
  virtual Status Sync() = 0;
  // Returns OK if the log is still where it was opened. Otherwise the directory was removed, or
  // something else has its path now, and nothing that is written is kept: returns kStorage, with
  // the name of the shard. Whoever tells a caller that something is durable must check this after
  // the fsync.
  virtual Status CheckInPlace() const = 0;
  // Returns Ok, or the reason why this process may not write: another process leads.
  virtual Status MayWrite() const = 0;
  // Returns how many bytes were written since the opening, to the log or not.
  virtual std::uint64_t bytes() const = 0;

  // RocksDB's own log needs none of these.

  // Returns whether serials must be reserved before they are used, because somebody may read
  // commits that a crash takes.
  virtual bool reserves_serials() const { return true; }

  // Tells the log of column families that the batches of Write may name from now on. Their handles
  // must stay valid until PrepareDrop or the end of the log.
  virtual void AddFamilies(const Handles&) {}
  // Returns Ok once RocksDB may drop these families. No batch of Write names them from now on.
  // Returns kStorage, with the name of the shard.
  virtual Status PrepareDrop(const Handles&) { return Status::Ok(); }
  // Returns these families, and those that RocksDB must flush in the same step.
  virtual Handles FlushedWith(Handles families) const { return families; }
};

}  // namespace topicdb::rocks
