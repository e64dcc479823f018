#include "replication/jobs/job_worker.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/thread/parallel.h"
#include "replication/jobs/staged_upload.h"
#include "rocks/rocks_compat.h"
#include "store/shard/commit/shard_jobs.h"

namespace topicdb::replication {

namespace {

using std::chrono::milliseconds;

// How often it looks whether a job that is under way goes on: leaders change.
constexpr milliseconds kLookAgainAfter(20);
constexpr std::chrono::minutes kSweepInterval(10);
// After this long without a change, what a job has staged is taken for left behind.
constexpr std::chrono::hours kOrphanAge(6);

bool Concerns(const ClusterJob& job, std::uint32_t shard) {
  return job.kind == ClusterJobKind::kCommit &&
         std::binary_search(job.shards.begin(), job.shards.end(), shard);
}

StagedJob Of(const ClusterJob& job, std::int64_t pending_since) {
  return {job.job,
          job.commit,
          job.sequence,
          job.number,
          job.malformed,
          TimeAt<WallTime>(job.committed_at),
          TimeAt<WallTime>(pending_since),
          job.shards};
}

// Applies the jobs that concern a shard, in their order, if this replica leads it.
void ApplyTo(const Replica& replica, std::uint32_t index, const ClusterState& state,
             const std::atomic<bool>& canceled) {
  std::int64_t pending_since = 0;
  for (const ClusterJob& job : state.jobs) {
    if (pending_since == 0) pending_since = job.committed_at;
    if (!Concerns(job, index)) continue;
    const std::shared_ptr<Shard> shard = replica.shard();
    if (replica.state() != ReplicaState::kLeading) return;
    // The next look tries again. A later job of a sequence must not come before an earlier one.
    if (!shard->ApplyJob(Of(job, pending_since), canceled).ok()) return;
  }
}

bool IsApplied(const SiteShards& shards, const ClusterJob& job) {
  return std::all_of(job.shards.begin(), job.shards.end(), [&](std::uint32_t shard) {
    const std::shared_ptr<Replica> replica = shards.Find(shard);
    if (replica == nullptr) return false;
    const SharedJobs applied = replica->shard()->view()->jobs();
    return FindApplied(*applied, job.sequence, job.number) != nullptr;
  });
}

}  // namespace

JobWorker::JobWorker(ClusterGroup* group, std::shared_ptr<const SiteShards> shards,
                     milliseconds patience)
    : group_(*group), shards_(std::move(shards)), patience_(patience) {
  group_.Watch(this, [this] {
    const MutexLock lock(mutex_);
    ++changes_;
    changed_.NotifyAll();
  });
  worker_ = std::thread([this] { Work(); });
}

void JobWorker::Stop() {
  if (!worker_.joinable()) return;
  group_.Watch(this, {});
  canceled_ = true;
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    changed_.NotifyAll();
  }
  worker_.join();
}

bool JobWorker::AwaitChange(std::uint64_t* seen, Clock::time_point deadline) {
  const MutexLock lock(mutex_);
  while (changes_ == *seen && !stops_ && Clock::now() < deadline) {
    changed_.WaitUntil(mutex_, deadline);
  }
  *seen = changes_;
  return !stops_;
}

void JobWorker::Work() {
  auto sweep_at = Clock::now() + kSweepInterval;
  auto look_at = sweep_at;
  for (std::uint64_t seen = 0; AwaitChange(&seen, look_at);) {
    const ClusterState state = group_.state();
    if (!state.jobs.empty()) {
      ApplyAll(state);
      if (group_.leads()) FinishAll(state);
    }
    if (Clock::now() >= sweep_at) {
      Sweep(state);
      sweep_at = Clock::now() + kSweepInterval;
    }
    look_at = state.jobs.empty() ? sweep_at : Clock::now() + kLookAgainAfter;
  }
}

void JobWorker::ApplyAll(const ClusterState& state) const {
  std::vector<std::pair<std::uint32_t, std::shared_ptr<Replica>>> replicas;
  for (const auto& [index, replica] : shards_->All()) replicas.emplace_back(index, replica);
  RunInParallel(replicas.size(), [&](std::size_t i) {
    ApplyTo(*replicas[i].second, replicas[i].first, state, canceled_);
    return Status::Ok();
  }).IgnoreError();
}

void JobWorker::FinishAll(const ClusterState& state) const {
  for (const ClusterJob& job : state.jobs) {
    if (canceled_.load()) return;
    if (job.kind == ClusterJobKind::kCommit && !IsApplied(*shards_, job)) continue;
    StagingStep remove;
    remove.kind = StagingStep::Kind::kRemove;
    remove.job = job.job;
    remove.epoch = job.epoch;
    bool is_removed = true;
    for (const auto& [index, replica] : shards_->All()) {
      is_removed = is_removed && StageAt(*shards_, index, remove, Clock::now() + patience_).ok();
    }
    if (!is_removed) return;  // the next look tries again
    ClusterCommand command;
    command.kind = ClusterCommandKind::kForgetJob;
    command.job = job;
    group_.Propose(command, patience_).IgnoreError();  // likewise
  }
}

void JobWorker::Sweep(const ClusterState& state) {
  for (const auto& [index, replica] : shards_->All()) {
    replica->shard()->RemoveStagedGarbage(&canceled_).IgnoreError();  // the next sweep tries again
    if (replica->state() != ReplicaState::kLeading) continue;
    // If this replica leads no more, the one that does goes on.
    replica->shard()->ForgetJobs().IgnoreError();
    replica->shard()->RemoveUnplaced().IgnoreError();
  }
  const std::shared_ptr<Replica> first = shards_->Find(0);
  if (!group_.leads() || first == nullptr) return;
  const auto found = JobsStagedBefore(*first->shard()->view(), ReadWallClock() - kOrphanAge);
  if (!found.ok()) return;
  for (const std::string& job : *found) {
    if (state.FindJob(job) != nullptr) continue;
    ClusterCommand command;
    command.kind = ClusterCommandKind::kAddJob;
    command.job.kind = ClusterJobKind::kRemove;
    command.job.job = job;
    group_.Propose(command, patience_).IgnoreError();  // the next sweep tries again
  }
}

Result<std::vector<std::string>> JobsStagedBefore(const ShardView& first_shard, WallTime before) {
  std::map<std::string, WallTime> begun;
  const std::string end = StagedEnd();
  const std::unique_ptr<rocksdb::Iterator> records(
      first_shard.db()->NewIterator(rocksdb::ReadOptions()));
  records->Seek(StagedPrefix());
  while (records->Valid() && records->key().compare(end) < 0) {
    const std::string job(JobOfStagedKey(records->key().ToStringView()));
    const std::string prefix = JobStagedPrefix(job);
    const std::string_view rest = records->key().ToStringView().substr(prefix.size());
    std::int64_t at = 0;
    if (IsStagedBeginRest(rest) && DecodeStagedBegin(records->value().ToStringView(), &at)) {
      WallTime& newest = begun[job];
      newest = std::max(newest, TimeAt<WallTime>(at));
      records->Next();
    } else {
      records->Seek(JobStagedEnd(job));  // they are the first ones of a job
    }
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(records->status(), "looking for what is staged"));
  std::vector<std::string> old;
  for (const auto& [job, newest] : begun) {
    if (newest < before) old.push_back(job);
  }
  return old;
}

}  // namespace topicdb::replication
