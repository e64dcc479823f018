#include "replication/replica/site_shards.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/thread/parallel.h"
#include "store/view/shard_environment.h"

namespace topicdb::replication {

SiteShards::SiteShards(RaftSite* site, std::shared_ptr<const ShardEnvironment> environment,
                       ReplicaOptions options)
    : site_(*site), environment_(std::move(environment)), options_(std::move(options)) {}

Result<std::shared_ptr<Shard>> SiteShards::Open(std::uint32_t index) {
  ReplicaOptions options = options_;
  options.group = GroupOf(index);
  TOPICDB_ASSIGN_OR_RETURN(auto replica,
                           Replica::Open(&site_, environment_, index, std::move(options)));
  std::shared_ptr<Shard> shard = replica->shard();
  const MutexLock lock(mutex_);
  replicas_[index] = std::move(replica);
  return shard;
}

void SiteShards::Watch(std::function<void(std::shared_ptr<Shard>)> replace) {
  for (std::uint32_t index = 0; index < environment_->schema.shards; ++index) {
    if (const auto replica = Find(index)) replica->Watch(replace);
  }
}

Status SiteShards::SetRules(const RetentionRules& rules,
                            const std::vector<std::shared_ptr<Shard>>&) {
  environment_->retention->Set(rules);
  AdoptRules();
  return AwaitRules(rules.version());
}

void SiteShards::AdoptRules() const {
  for (const auto& [index, replica] : All()) {
    // If it leads no more, whoever leads next adopts them. Other errors end its reign, too.
    replica->shard()->Adopt(environment_->rules()).IgnoreError();
  }
}

Status SiteShards::AwaitRules(std::uint64_t version) const {
  const auto deadline = std::chrono::steady_clock::now() + options_.commit_patience;
  CommitSignal& commits = *environment_->commits;
  for (;;) {
    const std::uint64_t seen = commits.count();
    const auto replicas = All();
    const auto behind = std::find_if(replicas.begin(), replicas.end(), [&](const auto& one) {
      return one.second->shard()->rules_version() < version;
    });
    if (behind == replicas.end()) return Status::Ok();
    const Replica& replica = *behind->second;
    const Status failure = replica.failure();
    if (!failure.ok() || std::chrono::steady_clock::now() >= deadline) {
      const std::string why =
          failure.ok() ? "no replica that leads has taken the new retention classes within " +
                             std::to_string(options_.commit_patience.count()) + " ms"
                       : failure.message();
      return UnknownOutcome(replica.name() + ": " + why +
                            ": they are those of the database, and hold here once one has");
    }
    commits.WaitUntil(seen, deadline);
  }
}

Status SiteShards::Close(const std::vector<std::shared_ptr<Shard>>&) {
  std::vector<std::shared_ptr<Replica>> replicas;
  {
    const MutexLock lock(mutex_);
    for (auto& [index, replica] : replicas_) replicas.push_back(std::move(replica));
    replicas_.clear();
  }
  std::vector<Status> closed(replicas.size());
  RunInParallel(replicas.size(), [&](std::size_t i) {
    closed[i] = replicas[i]->Close();
    return Status::Ok();  // so that all are closed
  }).IgnoreError();
  for (const Status& status : closed) TOPICDB_RETURN_IF_ERROR(status);
  return Status::Ok();
}

Status SiteShards::AwaitAcknowledged(std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + patience;
  std::vector<std::pair<std::uint32_t, std::shared_ptr<Replica>>> replicas;
  for (const auto& [index, replica] : All()) replicas.emplace_back(index, replica);
  return RunInParallel(replicas.size(), [&](std::size_t i) {
    // The last of many may have to begin late.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto& [index, replica] = replicas[i];
    return AwaitAcknowledged(index, *replica, std::max(left, std::chrono::milliseconds(0)));
  });
}

Status SiteShards::AwaitAcknowledged(std::uint32_t index, const Replica& replica,
                                     std::chrono::milliseconds patience) {
  TOPICDB_RETURN_IF_ERROR(replica.failure());
  const Status came = site_.ReadBarrier(GroupOf(index), patience);
  TOPICDB_RETURN_IF_ERROR(replica.failure());
  if (came.ok()) {
    replica.shard()->AwaitCommit();  // a leader shows a commit just after it has applied it
    return Status::Ok();
  }
  const auto status = StatusOf(index);
  const bool lags = !status.ok() || status->applied < status->committed;
  if (came.code() != Code::kStale || lags) return came.WithContext(replica.name());
  return NotLeader(replica.name() + ": no majority of the replicas has answered a read within " +
                   std::to_string(patience.count()) +
                   " ms: a majority must be up, or read without asking for what was acknowledged");
}

std::shared_ptr<Replica> SiteShards::Find(std::uint32_t index) const {
  const MutexLock lock(mutex_);
  const auto found = replicas_.find(index);
  return found == replicas_.end() ? nullptr : found->second;
}

std::map<std::uint32_t, std::shared_ptr<Replica>> SiteShards::All() const {
  const MutexLock lock(mutex_);
  return replicas_;
}

}  // namespace topicdb::replication
