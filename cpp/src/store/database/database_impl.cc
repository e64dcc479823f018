#include "store/database/database_impl.h"

#include <algorithm>
#include <numeric>

#include "base/thread/parallel.h"
#include "rocks/files/file_state.h"
#include "store/database/create.h"
#include "store/view/shard_environment.h"

namespace topicdb {

namespace {

constexpr int kOpenPassesMax = 3;

Status CheckOptions(const OpenOptions& options) {
  constexpr std::uint32_t kStreamsMin = 16;
  constexpr std::size_t kBytesMin = std::size_t{64} << 10;
  if (options.write_buffer_bytes < kBytesMin) {
    return InvalidArgument("write_buffer_bytes: at least 65536 are needed, got " +
                           std::to_string(options.write_buffer_bytes));
  }
  if (options.seal_bytes == 0) return InvalidArgument("seal_bytes: at least 1 is needed, got 0");
  if (options.streams_max < kStreamsMin) {
    return InvalidArgument("streams_max: at least " + std::to_string(kStreamsMin) +
                           " are needed, got " + std::to_string(options.streams_max));
  }
  const CommitOptions& commit = options.commit;
  const auto positive = [](const char* name, auto value) {
    return value > 0 ? Status::Ok()
                     : InvalidArgument(std::string(name) + ": at least 1 is needed, got " +
                                       std::to_string(value));
  };
  TOPICDB_RETURN_IF_ERROR(positive("flush_interval", commit.flush_interval.count()));
  TOPICDB_RETURN_IF_ERROR(positive("idle_flush_interval", commit.idle_flush_interval.count()));
  TOPICDB_RETURN_IF_ERROR(positive("max_pending", commit.pending_max));
  TOPICDB_RETURN_IF_ERROR(positive("max_pending_bytes", commit.pending_bytes_max));
  TOPICDB_RETURN_IF_ERROR(positive("conflict_window", commit.conflict_window.count()));
  if (options.quota_trim < 0 || options.quota_trim > 1) {
    return InvalidArgument("quota_trim: a part of the quota, from 0 to 1, is needed, got " +
                           std::to_string(options.quota_trim));
  }
  if (options.maintenance_interval.count() >= 0) return Status::Ok();
  return InvalidArgument("maintenance_interval: it cannot be negative");
}

Status CheckOnlyShards(const std::optional<std::vector<std::uint32_t>>& only_shards,
                       std::uint32_t shards) {
  if (!only_shards.has_value()) return Status::Ok();
  if (only_shards->empty()) return InvalidArgument("only_shards: at least one shard is needed");
  std::set<std::uint32_t> seen;
  for (const std::uint32_t index : *only_shards) {
    if (index >= shards) {
      return InvalidArgument("only_shards: there is no shard " + std::to_string(index) +
                             ", the database has " + std::to_string(shards));
    }
    if (!seen.insert(index).second) {
      return InvalidArgument("only_shards: shard " + std::to_string(index) + " is given twice");
    }
  }
  return Status::Ok();
}

}  // namespace

DatabaseImpl::DatabaseImpl(std::shared_ptr<const ShardEnvironment> environment,
                           const OpenOptions& options)
    : environment_(std::move(environment)),
      only_shards_(options.only_shards),
      durability_(options.durability),
      quota_bytes_(options.quota_bytes),
      quota_trim_(options.quota_trim) {}

Result<std::shared_ptr<DatabaseImpl>> DatabaseImpl::Open(const std::string& path,
                                                         const OpenOptions& options) {
  TOPICDB_RETURN_IF_ERROR(CheckOptions(options));
  TOPICDB_ASSIGN_OR_RETURN(const FoundDatabase found, FindOrCreateDatabase(path, options));
  TOPICDB_RETURN_IF_ERROR(CheckOnlyShards(options.only_shards, found.descriptor.schema.shards));
  auto database =
      std::make_shared<DatabaseImpl>(MakeShardEnvironment(path, found, options), options);
  TOPICDB_RETURN_IF_ERROR(database->OpenShards());
  if (!options.read_only) {
    TOPICDB_RETURN_IF_ERROR(database->OpenJobs());
    database->StartJanitor(options.maintenance_interval);
  }
  return database;
}

Status DatabaseImpl::OpenShards() {
  TOPICDB_RETURN_IF_ERROR(OpenChanged());
  if (!environment_->read_only) return Status::Ok();
  // Beside a busy writer, shards may have been opened at moments that are many jobs apart.
  for (int pass = 1; pass < kOpenPassesMax && AreFarApart(WholeMoments()); ++pass) {
    TOPICDB_RETURN_IF_ERROR(OpenChanged());
  }
  return Status::Ok();
}

Status DatabaseImpl::OpenChanged() {
  std::vector<std::uint32_t> indexes(environment_->schema.shards);
  std::iota(indexes.begin(), indexes.end(), 0);
  if (only_shards_.has_value()) indexes = *only_shards_;
  std::sort(indexes.begin(), indexes.end());
  std::map<std::uint32_t, std::shared_ptr<Shard>> known;
  for (const auto& shard : Shards()) known[shard->index()] = shard;
  std::vector<std::string> files(indexes.size());
  std::vector<std::shared_ptr<Shard>> shards(indexes.size());
  TOPICDB_RETURN_IF_ERROR(RunInParallel(indexes.size(), [&](std::size_t i) -> Status {
    if (environment_->read_only) {  // for Refresh, which writing handles do not need
      files[i] = rocks::StateOf(ShardDirectory(environment_->database_path, indexes[i]),
                                rocks::StateFiles::kLogsToo);
    }
    const auto found = known.find(indexes[i]);
    if (found != known.end() && IsUnchanged(indexes[i], files[i])) {
      shards[i] = found->second;
      return Status::Ok();
    }
    TOPICDB_ASSIGN_OR_RETURN(shards[i], Shard::Open(environment_, indexes[i], /*create=*/false));
    return Status::Ok();
  }));
  const MutexLock lock(shards_mutex_);
  shards_.swap(shards);
  files_.clear();
  for (std::size_t i = 0; i < indexes.size(); ++i) files_[indexes[i]] = std::move(files[i]);
  return Status::Ok();
}

bool DatabaseImpl::IsUnchanged(std::uint32_t shard, const std::string& files) const {
  const MutexLock lock(shards_mutex_);
  const auto found = files_.find(shard);
  return found != files_.end() && found->second == files && !files.empty();
}

Status DatabaseImpl::CheckUsable() const {
  if (fork_guard_.Forked()) {
    return Forked(environment_->database_path +
                  " was opened before this process was forked: open it again in the child (or use "
                  "the 'spawn' start method)");
  }
  return closing_.load() ? Closed(environment_->database_path + " is closed") : Status::Ok();
}

std::vector<std::shared_ptr<Shard>> DatabaseImpl::Shards() const {
  const MutexLock lock(shards_mutex_);
  return shards_;
}

Result<std::shared_ptr<Shard>> DatabaseImpl::FindShard(std::uint32_t index) const {
  std::string open;
  for (const auto& shard : Shards()) {
    if (shard->index() == index) return shard;
    open += (open.empty() ? "" : ", ") + std::to_string(shard->index());
  }
  return ReadOnly("shard " + std::to_string(index) + " is not open here (only_shards=[" + open +
                  "])");
}

std::vector<ShardMoment> DatabaseImpl::Moments() const {
  std::vector<ShardMoment> moments = WholeMoments();
  if (environment_->schema.layout == LayoutKind::kColumnar) curtain_.Hide(&moments);
  return moments;
}

std::vector<ShardMoment> DatabaseImpl::WholeMoments() const {
  std::vector<ShardMoment> moments;
  for (auto& shard : Shards()) {
    auto view = shard->view();
    moments.push_back({std::move(shard), std::move(view)});
  }
  return moments;
}

// Scans that run keep the shards they began with.
Status DatabaseImpl::Refresh() {
  if (!environment_->read_only) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, LoadRetention(environment_->database_path,
                                                               environment_->schema.retention));
  environment_->retention->Set(std::move(rules));
  return OpenShards();
}

Status DatabaseImpl::CheckMayWrite() const {
  if (!environment_->read_only) return Status::Ok();
  return ReadOnly(environment_->database_path + " was opened with mode='r'");
}

Status DatabaseImpl::CheckKeepsLog() const {
  const LayoutKind layout = environment_->schema.layout;
  if (layout == LayoutKind::kColumnar) return Status::Ok();
  return InvalidArgument(environment_->database_path + " has the layout '" + NameOf(layout) +
                         "', which keeps no commit log; 'columnar' does");
}

Status DatabaseImpl::CheckWritesAll(const char* call) const {
  TOPICDB_RETURN_IF_ERROR(CheckMayWrite());
  if (Shards().size() == environment_->schema.shards) return Status::Ok();
  return ReadOnly(std::string(call) + ": all shards of " + environment_->database_path +
                  " have to be open for writing here, it was opened with only_shards");
}

Status DatabaseImpl::CheckQuota() const {
  if (quota_bytes_ == 0) return Status::Ok();
  std::uint64_t used = 0;
  for (const auto& shard : Shards()) used += shard->DiskBytes();
  if (used < quota_bytes_) return Status::Ok();
  return QuotaFault(environment_->database_path + " has " + std::to_string(used) +
                    " bytes, its quota is " + std::to_string(quota_bytes_) +
                    ": delete or drop something, or raise quota_bytes");
}

void DatabaseImpl::Register(ViewHolder* holder) {
  const MutexLock lock(holders_mutex_);
  holders_.insert(holder);
}

void DatabaseImpl::Unregister(ViewHolder* holder) {
  const MutexLock lock(holders_mutex_);
  holders_.erase(holder);
}

std::shared_ptr<SubscriptionHub> DatabaseImpl::Hub(
    const std::function<std::shared_ptr<SubscriptionHub>()>& make) const {
  const MutexLock lock(hub_mutex_);
  std::shared_ptr<SubscriptionHub> hub = hub_.lock();
  if (hub == nullptr) hub_ = hub = make();
  return hub;
}

Status DatabaseImpl::Close() {
  if (fork_guard_.Forked()) return CheckUsable();
  if (closing_.exchange(true)) {
    const WriterLock wait(lifecycle_);  // until the other Close is done
    return Status::Ok();
  }
  watcher_.reset();
  janitor_.reset();
  environment_->commits->Notify();  // tails that wait notice that the handle is closed
  const WriterLock alone(lifecycle_);
  std::set<ViewHolder*> holders;
  {
    const MutexLock lock(holders_mutex_);
    holders.swap(holders_);
  }
  for (ViewHolder* holder : holders) holder->Release();
  environment_->readers->Clear();
  environment_->sealer->Stop();
  std::vector<std::shared_ptr<Shard>> shards;
  {
    const MutexLock lock(shards_mutex_);
    shards.swap(shards_);
  }
  std::vector<Status> closed(shards.size());
  const auto close = [&](std::size_t i) {
    closed[i] = shards[i]->Close();
    return Status::Ok();  // so that all are closed
  };
  if (environment_->read_only) {  // to free what thousands of column families take is work
    RunInParallel(shards.size(), close).IgnoreError();
  } else {  // what is written last has an order that can be told again
    for (std::size_t i = 0; i < shards.size(); ++i) close(i).IgnoreError();
  }
  const auto first =
      std::find_if(closed.begin(), closed.end(), [](const Status& status) { return !status.ok(); });
  return first == closed.end() ? Status::Ok() : *first;
}

}  // namespace topicdb
