// Where an open database has its shards from.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "store/job/replicated_jobs.h"
#include "store/shard/shard.h"

namespace topicdb {

// Opens the shards of a database, and closes them. The OpenShards of the database owns it.
// Thread-safe.
class ShardSource {
 public:
  ShardSource() = default;
  virtual ~ShardSource() = default;
  ShardSource(const ShardSource&) = delete;
  ShardSource& operator=(const ShardSource&) = delete;

  // Opens a shard. Returns the errors of Shard::Open.
  virtual Result<std::shared_ptr<Shard>> Open(std::uint32_t index) = 0;
  // Calls `replace` with a shard whenever it takes the place of one that Open has returned, also
  // for those that were replaced since. The old one stays open as long as somebody has it.
  // `replace` must only store the shard: it is called with locks held.
  virtual void Watch(std::function<void(std::shared_ptr<Shard>)> replace) = 0;
  // Makes these the retention rules of the database for good, and has all its shards follow them.
  // `shards` are those that are open. Returns kConflict if others have changed the rules, which are
  // then those of the environment: ask again with rules that follow these. Returns kNotLeader if
  // nothing was done, and kUnknownOutcome if some shard does not follow the new rules yet, or if
  // they may come to be those of the database later.
  virtual Status SetRules(const RetentionRules& rules,
                          const std::vector<std::shared_ptr<Shard>>& shards) = 0;
  // Closes the shards that Open has returned, and those that have replaced them. Closes all of
  // them in any case, and returns the first error. REQUIRES (Close): nobody uses the shards, or
  // holds a view of one
  virtual Status Close(const std::vector<std::shared_ptr<Shard>>& shards) = 0;
  // Returns whether the shards are replicas. Then others may write a shard instead of this process,
  // which Shard::MayWrite tells, and what a database keeps in files beside its shards is not
  // replicated.
  virtual bool is_replicated() const = 0;
  // Waits until readers of all shards see here what was acknowledged before, or what a reader has
  // seen before, whichever process has written it. Returns kNotLeader if no majority of the
  // replicas of a shard answers within `patience`, and kStale if one does and the shard is too far
  // behind here.
  virtual Status AwaitAcknowledged(std::chrono::milliseconds patience) = 0;
  // Returns who commits jobs to the shards, or null if they are in files beside the shards.
  virtual ReplicatedJobs* jobs() { return nullptr; }
};

// Makes the source of the shards of a database.
using MakeShardSource =
    std::function<std::unique_ptr<ShardSource>(std::shared_ptr<const ShardEnvironment>)>;

// Has the shards from the directory of the database, which belong to this process alone.
class LocalShards : public ShardSource {
 public:
  explicit LocalShards(std::shared_ptr<const ShardEnvironment> environment)
      : environment_(std::move(environment)) {}

  Result<std::shared_ptr<Shard>> Open(std::uint32_t index) override {
    return Shard::Open(environment_, index, /*create=*/false);
  }
  void Watch(std::function<void(std::shared_ptr<Shard>)>) override {}  // nobody replaces one
  // Stores the rules before any shard follows them. A shard that does not come to adopt them does
  // so when it is next opened.
  Status SetRules(const RetentionRules& rules,
                  const std::vector<std::shared_ptr<Shard>>& shards) override;
  Status Close(const std::vector<std::shared_ptr<Shard>>& shards) override;
  bool is_replicated() const override { return false; }
  Status AwaitAcknowledged(std::chrono::milliseconds) override { return Status::Ok(); }

 private:
  const std::shared_ptr<const ShardEnvironment> environment_;
};

}  // namespace topicdb
