// The shard of a replica.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "replication/entry_parts.h"
#include "replication/replicated_log.h"
#include "replication/replicated_shard_log.h"
#include "replication/unlogged_rocks.h"
#include "store/shard/shard.h"

namespace topicdb::replication {

// A shard that follows the entries of a log, or leads and makes them. It stays open when that
// changes, so whoever reads it need not notice. The Replica of the shard owns it. One thread at a
// time calls its methods; any thread may read the shard.
class ReplicatedShard {
 public:
  // Opens a shard, which follows. Makes its RocksDB if there is none. What is written to the shard
  // while it follows goes to `leader`; without one, such writes fail with kNotLeader. Returns what
  // Shard::OpenToFollow returns.
  static Result<std::unique_ptr<ReplicatedShard>> Open(
      const std::shared_ptr<const ShardEnvironment>& environment, std::uint32_t index,
      std::shared_ptr<ShardLeader> leader = nullptr);
  ~ReplicatedShard() { Close().IgnoreError(); }
  ReplicatedShard(const ReplicatedShard&) = delete;
  ReplicatedShard& operator=(const ReplicatedShard&) = delete;

  // Applies the next entry of the log, or a part of one. Entries that were applied before may come
  // again, from the first part on if they have parts. Returns what EntryApplier::Apply and
  // Shard::Replay return. REQUIRES (Apply): the shard follows
  Status Apply(const LogPlace& place, std::string_view bytes);
  // Says what is called when the shard has come to an entry for a digest as it follows. Call it
  // before the first entry is applied.
  void AtDigest(std::function<void(const LogPlace&)> call) { at_digest_ = std::move(call); }
  // Lets the shard write to `log`. REQUIRES (Lead): the last entry that was applied is the one with
  // which this replica began to lead. If this fails, call Follow
  Status Lead(std::shared_ptr<ReplicatedLog> log);
  // Lets the shard follow, and waits until nothing is written any more. Returns what Shard::Follow
  // returns. REQUIRES (Follow): the log of Lead takes no more entries
  Status Follow();
  // Returns the note of the last entry that was applied.
  meta::Applied applied() const { return rocks_->applied(); }
  const std::shared_ptr<Shard>& shard() const { return shard_; }
  // Returns the log to which the shard writes while it leads, or null.
  const std::shared_ptr<ReplicatedShardLog>& led() const { return led_; }
  // Closes the shard, which moves what it has in memory to files. May be repeated; nothing else may
  // be called afterwards. REQUIRES (Close): nobody uses the shard, or holds a view of it
  Status Close();

 private:
  ReplicatedShard() = default;

  std::shared_ptr<UnloggedRocks> rocks_;
  std::shared_ptr<Shard> shard_;
  std::shared_ptr<ReplicatedShardLog> led_;  // while the shard leads
  PartJoiner parts_;
  std::function<void(const LogPlace&)> at_digest_;  // or empty
};

}  // namespace topicdb::replication
