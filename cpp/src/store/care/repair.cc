#include "topicdb/repair.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/file/file_copy.h"
#include "base/file/files.h"
#include "rocks/files/process_threads.h"
#include "rocks/log/log_check.h"
#include "store/care/quarantine.h"
#include "store/care/shard_rebuild.h"
#include "store/job/job_files.h"
#include "store/view/shard_environment.h"

namespace topicdb {

namespace {

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Ends of names in the quarantine.
constexpr std::string_view kBuilding = ".building";
constexpr std::string_view kScratch = ".scratch";

// At most so many more generations may a shard have had than the others, which rotate with it.
constexpr std::uint32_t kGenerationMargin = 1'000;

class Repairer {
 public:
  Repairer(std::string path, const RepairOptions& options, const InterruptCheck& interrupted)
      : path_(std::move(path)), options_(options), interrupted_(interrupted) {}

  Result<Repair> Run() {
    TOPICDB_RETURN_IF_ERROR(rocks::CheckProcessMayWrite());
    if (Exists(path_ + "/site/identity")) {
      return ClusterFault(
          path_ +
          " is that of a site: a repair would lose messages that other sites have. While the site "
          "is up, `topicdb cluster heal URL SITE SHARD` fills a shard anew from another site. If "
          "it cannot be started, run `topicdb cluster forget URL SITE`, and have it join in an "
          "empty directory. If no other site is left, repair a copy, which `topicdb snapshot` "
          "makes");
    }
    const auto found = FindDatabase(path_);
    if (!found.ok() && found.status().code() == Code::kCorruption) {
      return Corruption(found.status().message() +
                        " (without it the shards cannot be understood: restore a snapshot)");
    }
    TOPICDB_RETURN_IF_ERROR(found.status());
    environment_ = MakeShardEnvironment(path_, *found, OpenOptions());
    TOPICDB_RETURN_IF_ERROR(Lock());
    TOPICDB_RETURN_IF_ERROR(RemoveUnfinished());
    TOPICDB_ASSIGN_OR_RETURN(const Verification before, Verify(RepairPhase::kVerify));
    std::set<std::uint32_t> damaged;
    for (const Problem& problem : before.problems) {
      if (problem.shard.has_value()) damaged.insert(*problem.shard);
    }
    if (damaged.empty()) {
      report_.remaining = before.problems;
      return std::move(report_);
    }
    total_ = before.messages;
    ReadOthers(*found);
    for (const std::uint32_t shard : damaged) TOPICDB_RETURN_IF_ERROR(RepairShard(shard));
    TOPICDB_RETURN_IF_ERROR(RemoveEmptyQuarantine());
    TOPICDB_ASSIGN_OR_RETURN(Verification after, Verify(RepairPhase::kCheck));
    report_.remaining = std::move(after.problems);
    return std::move(report_);
  }

 private:
  // Locks all shards until the repair ends. Cuts off ends of logs that were never synced, which are
  // no damage.
  Status Lock() {
    for (std::uint32_t shard = 0; shard < environment_->schema.shards; ++shard) {
      const std::string directory = ShardDirectory(path_, shard);
      auto lock = FileLock::Acquire(directory + ".lock");
      if (!lock.ok() && lock.status().code() == Code::kLocked) {
        return lock.status().WithContext("close the database before it is repaired");
      }
      TOPICDB_RETURN_IF_ERROR(lock.status());
      locks_.push_back(std::move(*lock));
      if (!IsDirectory(directory)) continue;
      const Status checked = rocks::CheckLogs(directory, rocks::LogUse::kWrite);
      if (!checked.ok() && checked.code() != Code::kCorruption) return checked;
    }
    return Status::Ok();
  }

  Result<Verification> Verify(RepairPhase phase) const {
    VerifyOptions options;
    if (options_.progress) {
      options.progress = [this, phase](std::uint64_t done, std::uint64_t total) {
        options_.progress(phase, done, total);
      };
    }
    return VerifyDatabase(path_, options, interrupted_);
  }

  Status RepairShard(std::uint32_t shard) {
    const std::string place = ShardDirectory(path_, shard);
    if (options_.replace_missing && !Exists(place)) return Replace(shard);
    if (!IsDirectory(place)) return Status::Ok();  // nothing to mend: it remains
    if (interrupted_ && interrupted_()) return Interrupted();
    TOPICDB_RETURN_IF_ERROR(MakeQuarantine());
    const std::string target = report_.quarantine + "/" + NameOf(place);
    const std::string building = target + std::string(kBuilding);
    TOPICDB_ASSIGN_OR_RETURN(const meta::JobRecords jobs, JobsOf(shard));
    auto report = RebuildShard(
        *environment_, shard, place, target + std::string(kScratch), building, jobs,
        [this](std::uint64_t messages) { Advance(messages); }, interrupted_);
    if (!report.ok()) {
      RemoveUnfinished().IgnoreError();
      return report.status().WithContext("shard " + std::to_string(shard));
    }
    // The new shard is complete before it has the name `rebuilt`. Once the directories have changed
    // places, the damaged shard has that name.
    const std::string rebuilt = target + ".new";
    TOPICDB_RETURN_IF_ERROR(Rename(building, rebuilt));
    TOPICDB_RETURN_IF_ERROR(SyncDirectory(report_.quarantine));
    TOPICDB_RETURN_IF_ERROR(Exchange(rebuilt, place));
    TOPICDB_RETURN_IF_ERROR(Rename(rebuilt, target));
    TOPICDB_RETURN_IF_ERROR(SyncDirectory(report_.quarantine));
    TOPICDB_RETURN_IF_ERROR(SyncDirectory(path_ + "/shards"));
    report_.shards.push_back(shard);
    report_.messages += report->messages;
    for (Problem& problem : report->problems) {
      // The scratch copy that was read is gone; the damaged shard in the quarantine has the file.
      const std::string copy = target + std::string(kScratch);
      const std::size_t begin = problem.what.find(copy);
      if (begin != std::string::npos) problem.what.replace(begin, copy.size(), target);
      report_.problems.push_back(std::move(problem));
    }
    return Status::Ok();
  }

  // Puts an empty shard where nothing is.
  Status Replace(std::uint32_t shard) {
    TOPICDB_RETURN_IF_ERROR(MakeQuarantine());
    const std::string place = ShardDirectory(path_, shard);
    const std::string building = report_.quarantine + "/" + NameOf(place) + std::string(kBuilding);
    TOPICDB_ASSIGN_OR_RETURN(const meta::JobRecords jobs, JobsOf(shard));
    auto report = ReplaceShard(*environment_, shard, building, jobs, used_);
    if (!report.ok()) {
      RemoveUnfinished().IgnoreError();
      return report.status().WithContext("shard " + std::to_string(shard));
    }
    TOPICDB_RETURN_IF_ERROR(Rename(building, place));
    TOPICDB_RETURN_IF_ERROR(SyncDirectory(path_ + "/shards"));
    report_.shards.push_back(shard);
    report_.problems.insert(report_.problems.end(), report->problems.begin(),
                            report->problems.end());
    return Status::Ok();
  }

  // Forgets a quarantine that nothing was moved to.
  Status RemoveEmptyQuarantine() {
    if (report_.quarantine.empty()) return Status::Ok();
    TOPICDB_RETURN_IF_ERROR(RemoveUnfinished());
    if (!IsDirectory(report_.quarantine)) report_.quarantine.clear();
    return Status::Ok();
  }

  // Reads what the shards know of jobs, and which numbers they use. Leaves out shards that cannot
  // be opened.
  void ReadOthers(const FoundDatabase& found) {
    // A shard makes less than one commit in a microsecond.
    const auto age = ReadWallClock() - found.descriptor.created_at;
    used_.serial = Serial{static_cast<std::uint64_t>(std::max<std::int64_t>(age.count(), 0))};
    OpenOptions options;
    options.read_only = true;
    const auto environment = MakeShardEnvironment(path_, found, options);
    for (std::uint32_t shard = 0; shard < environment_->schema.shards; ++shard) {
      const auto opened = Shard::Open(environment, shard, /*create=*/false);
      if (!opened.ok()) continue;
      const auto view = opened.value()->view();
      jobs_[shard] = view->jobs();
      for (const SlabView& slab : view->slabs()) {
        used_.generation = std::max(used_.generation, slab.slab->id().generation);
      }
    }
    used_.generation = used_.generation.Next(kGenerationMargin);
  }

  // Returns the jobs that the shard has applied, as the other shards know them: those that have
  // messages in the shard and are not waiting to be applied there. An intent that cannot be read is
  // among the problems that remain.
  Result<meta::JobRecords> JobsOf(std::uint32_t shard) const {
    std::set<WallTime> waiting;
    const auto intents = ListIntents(path_);
    if (intents.ok()) {
      for (const JobIntent& intent : *intents) {
        TOPICDB_ASSIGN_OR_RETURN(const auto outcome, FindOutcome(path_, intent, shard));
        if (!outcome.has_value()) waiting.insert(CommittedAt(intent));
      }
    }
    meta::JobRecords jobs;
    for (const auto& [other, known] : jobs_) {
      if (other == shard) continue;
      for (const auto& [name, record] : *known) {
        const meta::JobSpan& span = record.last;
        const bool has_part = std::binary_search(span.shards.begin(), span.shards.end(), shard);
        if (!has_part || waiting.contains(span.committed_at)) continue;
        meta::JobRecord& job = jobs[name];
        if (job.last.number > span.number) continue;
        job.last = {span.number, kNoSerial, kNoSerial, span.committed_at, span.shards};
        job.applied_at = record.applied_at;
      }
    }
    return jobs;
  }

  // Removes what a repair has left that was interrupted.
  Status RemoveUnfinished() const {
    const std::string quarantine = path_ + "/quarantine";
    if (!IsDirectory(quarantine)) return Status::Ok();
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> repairs, ListDirectory(quarantine));
    for (const std::string& repair : repairs) {
      const std::string directory = quarantine + "/" + repair;
      if (!IsDirectory(directory)) continue;
      TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
      for (const std::string& name : names) {
        const bool is_unfinished = name.ends_with(kBuilding) || name.ends_with(kScratch);
        if (is_unfinished) TOPICDB_RETURN_IF_ERROR(RemoveTree(directory + "/" + name));
      }
      rmdir(directory.c_str());  // if nothing is left in it
    }
    rmdir(quarantine.c_str());
    return Status::Ok();
  }

  Status MakeQuarantine() {
    if (!report_.quarantine.empty()) return Status::Ok();
    TOPICDB_ASSIGN_OR_RETURN(report_.quarantine, topicdb::MakeQuarantine(path_));
    return Status::Ok();
  }

  void Advance(std::uint64_t messages) {
    done_ += messages;
    if (options_.progress) options_.progress(RepairPhase::kRebuild, done_, std::max(done_, total_));
  }

  const std::string path_;
  const RepairOptions& options_;
  const InterruptCheck& interrupted_;
  std::shared_ptr<const ShardEnvironment> environment_;
  std::vector<std::unique_ptr<FileLock>> locks_;
  std::map<std::uint32_t, SharedJobs> jobs_;  // by shard
  UsedNumbers used_;                          // by a shard that is gone, at most
  Repair report_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<Repair> RepairDatabase(const std::string& path, const RepairOptions& options,
                              const InterruptCheck& interrupted) {
  return Repairer(path, options, interrupted).Run();
}

}  // namespace topicdb
