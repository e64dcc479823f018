// The way from a replica that follows to the one that leads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/thread/mutex.h"
#include "replication/forward/leader_call.h"
#include "replication/raft/raft_site.h"
#include "store/shard/shard.h"

namespace topicdb::replication {

// Asks the replica that leads a shard to do what this one may not, and answers such calls while
// this one leads. So a program may write at any site. The Replica owns it, together with the shards
// that it has opened. Thread-safe.
//
// A call that was made is not passed on by whoever answers it, and waits for no other call: two
// replicas that each take the other for the leader never wait for each other.
class LeaderLink : public ShardLeader {
 public:
  // What it asks its replica.
  struct Parts {
    // Returns the replica that leads, or 0 if none is known.
    std::function<std::uint64_t()> leader;
    // Returns the shard if this replica leads, or waits until it does, or until another one is
    // known. Returns kNotLeader otherwise.
    std::function<Result<std::shared_ptr<Shard>>(std::chrono::milliseconds patience)> lead;
    // Returns the last entry of the log that is applied here.
    std::function<std::uint64_t()> applied;
    // Returns why this replica asks nobody any more: its site has left the cluster.
    std::function<Status()> standing;
    // Waits until the log is applied here up to this entry.
    std::function<void(std::uint64_t index, std::chrono::milliseconds patience)> await_applied;
  };

  // `site` must outlive it. `name` is that of the shard, for messages.
  LeaderLink(RaftSite* site, std::uint64_t group, std::string name,
             std::chrono::milliseconds patience, Parts parts)
      : site_(*site),
        group_(group),
        name_(std::move(name)),
        patience_(patience),
        parts_(std::move(parts)) {}

  // ShardLeader.
  std::chrono::milliseconds patience() const override { return patience_; }
  void Commit(std::span<ShardCommit* const> group, Clock::time_point deadline) override;
  Status BeginTransaction(Clock::time_point deadline) override;
  Result<std::optional<KnownAppend>> FindAppend(std::string_view id,
                                                Clock::time_point deadline) override;
  Status Rotate(const RotateOptions& options, Clock::time_point deadline) override;
  Status DropSlab(RetentionClassId retention_class, Generation generation,
                  Clock::time_point deadline) override;
  Status Stage(const StagingStep& step, Clock::time_point deadline) override;
  Status SealAll(Clock::time_point deadline) override;

  // Answers the call of another replica.
  Result<std::string> Answer(std::string_view request) TOPICDB_EXCLUDES(mutex_);

 private:
  class Stored;

  // Sends a call to the replica that leads, whichever that comes to be. Returns the errors of
  // ShardLeader.
  Result<LeaderAnswer> Call(std::string_view call, Clock::time_point deadline)
      TOPICDB_EXCLUDES(mutex_);
  // Sends a call that may be done twice, again if its answer is lost.
  Result<LeaderAnswer> CallUntilAnswered(const LeaderCall& call, Clock::time_point deadline)
      TOPICDB_EXCLUDES(mutex_);
  // Sends it to this replica, and waits until what it did is seen here. Returns kNotLeader if that
  // one does not lead.
  Result<LeaderAnswer> CallAt(std::uint64_t leader, std::string_view call,
                              Clock::time_point deadline) TOPICDB_EXCLUDES(mutex_);
  // Applies a run of commits at the leader. Returns how many of `group` were in it.
  std::size_t CommitRun(std::span<ShardCommit* const> group, Clock::time_point deadline);

  // Does what a call asks for, in a shard that this replica leads.
  LeaderAnswer Serve(const LeaderCall& call);
  static void ServeCommits(const LeaderCall& call, Shard* shard, LeaderAnswer* answer);
  // Fetches a call from the replica that made it.
  Result<std::string> FetchStored(const StoredCall& stored);
  // Returns a part of a call that waits here.
  Result<std::string> PartOf(const StoredCall& part) const TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  const std::uint64_t group_;
  const std::string name_;
  const std::chrono::milliseconds patience_;
  const Parts parts_;

  mutable Mutex mutex_;
  std::uint64_t last_number_ TOPICDB_GUARDED_BY(mutex_) = 0;
  // The calls that are too large for a message, while they are under way.
  std::map<std::uint64_t, std::string_view> stored_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb::replication
