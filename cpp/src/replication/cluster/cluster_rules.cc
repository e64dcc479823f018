#include "replication/cluster/cluster_rules.h"

#include <string>
#include <utility>

#include "store/catalog/retention_file.h"

namespace topicdb::replication {

namespace {

Result<RetentionRules> RulesOf(const ClusterState& state) {
  return DecodeRetention(state.retention, "the retention classes of the cluster");
}

}  // namespace

ClusterRules::ClusterRules(ClusterGroup* group, std::shared_ptr<const SiteShards> shards,
                           std::shared_ptr<const ShardEnvironment> environment,
                           std::chrono::milliseconds patience)
    : group_(*group),
      shards_(std::move(shards)),
      environment_(std::move(environment)),
      patience_(patience) {
  group_.Watch(this, [this] {
    const MutexLock lock(mutex_);
    ++changes_;
    changed_.NotifyAll();
  });
  worker_ = std::thread([this, stored = environment_->rules()->version()] { Work(stored); });
}

void ClusterRules::Stop() {
  if (!worker_.joinable()) return;
  group_.Watch(this, {});
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    changed_.NotifyAll();
  }
  worker_.join();
}

Status ClusterRules::Propose(const RetentionRules& rules) {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterState before, StateBefore(rules));
  ClusterCommand command;
  command.kind = ClusterCommandKind::kSetRetention;
  command.based_on = RetentionHash(before);
  command.retention = EncodeRetention(rules);
  Status proposed = group_.Propose(command, patience_);
  if (proposed.code() == Code::kConflict) TOPICDB_RETURN_IF_ERROR(Take(group_.state()));
  return proposed;
}

Result<ClusterState> ClusterRules::StateBefore(const RetentionRules& rules) {
  const auto deadline = Clock::now() + patience_;
  for (std::uint64_t seen = 0;;) {
    ClusterState state = group_.state();
    TOPICDB_ASSIGN_OR_RETURN(const RetentionRules agreed, RulesOf(state));
    if (agreed.version() + 1 == rules.version()) return state;
    if (agreed.version() >= rules.version()) {
      TOPICDB_RETURN_IF_ERROR(Take(state));
      return Conflict("another site has changed the retention classes meanwhile");
    }
    if (!AwaitChange(&seen, deadline)) {
      return NotLeader("this site has not come to the present retention classes within " +
                       std::to_string(patience_.count()) +
                       " ms: a majority of the sites must be up");
    }
  }
}

Status ClusterRules::Take(const ClusterState& state) const {
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, RulesOf(state));
  environment_->retention->Set(std::move(rules));
  return Status::Ok();
}

bool ClusterRules::AwaitChange(std::uint64_t* seen, Clock::time_point deadline) {
  const MutexLock lock(mutex_);
  while (changes_ == *seen && !stops_) {
    if (Clock::now() >= deadline) return false;
    changed_.WaitUntil(mutex_, deadline);
  }
  *seen = changes_;
  return !stops_;
}

void ClusterRules::Work(std::uint64_t stored) {
  for (std::uint64_t seen = 0; AwaitChange(&seen, Clock::time_point::max());) {
    const ClusterState state = group_.state();
    const auto rules = RulesOf(state);
    // A later version of TopicDB has made them. The shards say so when they come to them.
    if (!rules.ok() || rules->version() == 0) continue;
    // If that fails, the shards still have the rules, and the next opening stores them.
    if (rules->version() > stored && StoreRetention(environment_->database_path, *rules).ok()) {
      stored = rules->version();
    }
    environment_->retention->Set(*rules);
    shards_->AdoptRules();
  }
}

}  // namespace topicdb::replication
