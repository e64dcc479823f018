// A replica that follows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "replication/entry_applier.h"
#include "replication/entry_parts.h"
#include "replication/replicated_log.h"
#include "replication/unlogged_rocks.h"
#include "store/shard/state/shard_rocks.h"
#include "store/view/shard_environment.h"

namespace topicdb::replication {

// The RocksDB of a shard that another replica leads. It applies the entries of the log, and nobody
// reads it. The Replica of the shard owns it, from when it begins to follow until it begins to
// lead. One thread at a time uses it.
class Follower {
 public:
  // Opens the RocksDB of a shard, and makes it if there is none. Returns kLocked, kCorruption or
  // kStorage.
  static Result<std::unique_ptr<Follower>> Open(std::shared_ptr<const ShardEnvironment> environment,
                                                std::uint32_t index);
  ~Follower() { Close().IgnoreError(); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Applies the next entry of the log, or a part of one. Entries that were applied before may come
  // again, from the first part on if they have parts. Returns what EntryApplier::Apply returns.
  Status Apply(const LogPlace& place, std::string bytes);
  // Returns the note of the last entry that was applied.
  meta::Applied applied() const { return rocks_->applied(); }
  // Moves everything that was applied to files.
  Status Flush() { return rocks_->Flush(); }
  // Closes RocksDB, which moves what it has in memory to files, and releases the lock. May be
  // repeated; nothing else may be called afterwards.
  Status Close();

 private:
  Follower(std::shared_ptr<const ShardEnvironment> environment, ShardRocks opened,
           const std::string& name);

  const std::shared_ptr<const ShardEnvironment> environment_;
  ShardRocks opened_;
  const OpenedShard shard_;
  std::unique_ptr<UnloggedRocks> rocks_;
  PartJoiner parts_;
};

}  // namespace topicdb::replication
