#include "topicdb/verify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string_view>
#include <thread>
#include <tuple>

#include "base/thread/mutex.h"
#include "base/thread/parallel.h"
#include "rocks/files/file_state.h"
#include "rocks/rocks_compat.h"
#include "store/catalog/database_hold.h"
#include "store/job/job_files.h"
#include "store/job/staged_file.h"
#include "store/shard/shard.h"
#include "store/view/shard_environment.h"

namespace topicdb {

namespace {

constexpr std::size_t kCacheBytes = std::size_t{16} << 20;
constexpr std::chrono::milliseconds kProgressEvery(100);
constexpr int kAttemptsMax = 20;

OpenOptions ReadOptions() {
  OpenOptions options;
  options.read_only = true;
  options.cache_bytes = kCacheBytes;
  options.write_buffer_bytes = kCacheBytes;
  return options;
}

// Makes one check of a database. VerifyDatabase makes and owns it. Several threads of its own run
// the tasks; mutex_ guards what they share.
class Verifier {
 public:
  Verifier(std::string path, const VerifyOptions& options, const InterruptCheck& interrupted)
      : path_(std::move(path)), options_(options), interrupted_(interrupted) {}

  Result<Verification> Run() TOPICDB_EXCLUDES(mutex_) {
    auto found = FindDatabase(path_);
    const bool is_damaged = !found.ok() && found.status().code() == Code::kCorruption;
    if (is_damaged) {
      Add({found.status().message()});
      return Finish();
    }
    if (!found.ok()) return found.status();
    TOPICDB_ASSIGN_OR_RETURN(const auto hold, HoldDatabase(path_, HolderKind::kReader));
    environment_ = MakeShardEnvironment(path_, *found, ReadOptions());
    Status status;
    std::thread worker([&] {
      status = CheckAll();
      done_ = true;
      const MutexLock lock(mutex_);
      changed_.NotifyAll();
    });
    Watch();
    worker.join();
    TOPICDB_RETURN_IF_ERROR(status);
    if (options_.progress) options_.progress(total_, total_);
    return Finish();
  }

 private:
  // A part of the work that takes some time.
  struct Task {
    std::shared_ptr<Shard> shard;
    std::shared_ptr<const ShardView> view;
    std::optional<SlabView> slab;  // absent: the files of the shard
  };

  // Asks the caller whether to stop and tells it the progress, until the other threads are done.
  void Watch() TOPICDB_EXCLUDES(mutex_) {
    while (!done_) {
      if (interrupted_ && interrupted_()) stop_ = true;
      if (options_.progress) options_.progress(std::min(checked_.load(), total_.load()), total_);
      const MutexLock lock(mutex_);
      if (!done_) changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kProgressEvery);
    }
  }

  Status CheckAll() {
    TOPICDB_RETURN_IF_ERROR(CheckJobs());
    const std::uint32_t shards = environment_->schema.shards;
    std::vector<std::shared_ptr<Shard>> opened(shards);
    TOPICDB_RETURN_IF_ERROR(RunInParallel(shards, [&](std::size_t index) {
      return Open(static_cast<std::uint32_t>(index), &opened[index]);
    }));
    std::vector<Task> tasks;
    for (const auto& shard : opened) {
      if (shard == nullptr) continue;
      const auto view = shard->view();
      if (options_.deep) tasks.push_back({shard, view, std::nullopt});
      for (const SlabView& slab : view->slabs()) {
        total_ += slab.slab->Info({}).messages;
        tasks.push_back({shard, view, slab});
      }
    }
    return RunInParallel(tasks.size(), [&](std::size_t index) {
      const Task& task = tasks[index];
      return task.slab.has_value() ? CheckSlab(task) : CheckFiles(task);
    });
  }

  // Opens a shard. Reports a problem and leaves `out` null if the shard is damaged.
  Status Open(std::uint32_t index, std::shared_ptr<Shard>* out) {
    if (stop_) return Interrupted();
    auto shard = Shard::Open(environment_, index, /*create=*/false);
    if (!shard.ok() && shard.status().code() != Code::kCorruption) return shard.status();
    if (shard.ok()) {
      *out = std::move(*shard);
      const MutexLock lock(mutex_);
      ++report_.shards;
    } else {
      Add({shard.status().message() + " (nothing else of this shard was checked)", index});
    }
    return Status::Ok();
  }

  // Checks the checksums of everything that RocksDB has stored.
  Status CheckFiles(const Task& task) {
    if (stop_) return Interrupted();
    const std::uint32_t index = task.shard->index();
    const std::string directory = ShardDirectory(path_, index);
    std::shared_ptr<Shard> shard = task.shard;
    for (int attempt = 1;; ++attempt) {
      const std::string before = rocks::StateOf(directory, rocks::StateFiles::kManifest);
      Status status = rocks::FromRocks(shard->view()->db()->VerifyChecksum(rocksdb::ReadOptions()),
                                       "checking the files of " + shard->Name());
      if (status.ok() || status.code() != Code::kCorruption) return status;
      // A writer may have removed a file that it needs no more, so this opens the shard again and
      // checks its present files.
      TOPICDB_ASSIGN_OR_RETURN(shard, Shard::Open(environment_, index, /*create=*/false));
      const bool may_be_gone =
          attempt == 1 || rocks::StateOf(directory, rocks::StateFiles::kManifest) != before;
      if (may_be_gone && attempt < kAttemptsMax) continue;
      Add({status.message(), index});
      return Status::Ok();
    }
  }

  Status CheckSlab(const Task& task) {
    const Slab& slab = *task.slab->slab;
    SlabCheck check;
    check.deep = options_.deep;
    check.serial_max = task.view->serial();
    std::vector<std::string_view> varying;
    check.stream_of = [&](std::string_view topic) { return slab.FindStream(topic, &varying); };
    check.structure_of = [&](StreamId stream) { return slab.StructureOf(stream); };
    check.report = [&](Finding finding) { AddOf(slab, std::move(finding)); };
    check.checked = [&](std::uint64_t messages) {
      checked_ += messages;
      return stop_.load();
    };
    if (stop_) return Interrupted();
    const auto counts = slab.layout().Check(task.view->Source(slab), check);
    if (!counts.ok()) return counts.status().WithContext(task.view->Describe(slab.id()));
    CheckRecords(task, *counts);
    const MutexLock lock(mutex_);
    ++report_.slabs;
    report_.blocks += counts->blocks;
    report_.pages += counts->pages;
    report_.messages += counts->messages;
    return Status::Ok();
  }

  // Checks the records of the slab that were not read when the shard was opened, and compares its
  // counters.
  void CheckRecords(const Task& task, const CheckCounts& counts) {
    const Slab& slab = *task.slab->slab;
    const std::uint64_t written = slab.Info({}).messages;
    if (counts.messages > written) {
      AddOf(slab, {"it has " + std::to_string(counts.messages) + " messages, by its counters " +
                   std::to_string(written) + " were written"});
    }
    if (task.slab->read_only) return;
    const auto sample = TopicSample::ReadTopics(task.view->db(), slab.id());
    if (!sample.ok()) AddOf(slab, {sample.status().message()});
  }

  // Checks the jobs that were committed and are not applied to every shard yet.
  Status CheckJobs() {
    const auto intents = ListIntents(path_);
    if (!intents.ok()) return Note(intents.status());
    for (const JobIntent& intent : *intents) {
      std::map<std::uint32_t, ShardOutcome> outcomes;
      const auto applied = IsApplied(path_, intent, &outcomes);
      if (applied.ok() && *applied) continue;
      for (const std::string& name : intent.files) {
        TOPICDB_RETURN_IF_ERROR(Note(CheckStagedFile(JobDirectory(path_, intent.job), name)));
      }
    }
    return Status::Ok();
  }

  Status Note(const Status& status) {
    const bool is_damage = status.code() == Code::kCorruption || status.code() == Code::kNotFound;
    if (!is_damage) return status;
    Add({status.message()});
    return Status::Ok();
  }

  void AddOf(const Slab& slab, Finding finding) {
    Problem problem{std::move(finding.what), slab.id().shard, slab.id()};
    problem.retention_class = environment_->rules()->FilterOf(slab.id().retention_class);
    problem.messages = finding.messages;
    problem.times = finding.times;
    for (const StreamId stream : finding.streams) {
      const auto structure = slab.StructureOf(stream);
      if (structure.has_value()) problem.structures.push_back(structure->Text());
    }
    Add(std::move(problem));
  }

  void Add(Problem problem) TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    report_.problems.push_back(std::move(problem));
  }

  Verification Finish() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto place = [](const Problem& problem) {
      return std::tuple(problem.shard, problem.slab, std::string_view(problem.what));
    };
    std::sort(report_.problems.begin(), report_.problems.end(),
              [&](const Problem& a, const Problem& b) { return place(a) < place(b); });
    return std::move(report_);
  }

  const std::string path_;
  const VerifyOptions& options_;
  const InterruptCheck& interrupted_;
  std::shared_ptr<const ShardEnvironment> environment_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> done_{false};
  std::atomic<std::uint64_t> checked_{0};
  std::atomic<std::uint64_t> total_{0};
  Mutex mutex_;
  CondVar changed_;
  Verification report_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace

Result<Verification> VerifyDatabase(const std::string& path, const VerifyOptions& options,
                                    const InterruptCheck& interrupted) {
  return Verifier(path, options, interrupted).Run();
}

}  // namespace topicdb
