#include "store/database/database_impl.h"

#include "store/catalog/database_hold.h"
#include "store/database/create.h"
#include "store/upload/fetched_files.h"
#include "store/view/shard_environment.h"

namespace topicdb {

namespace {

// A database may be dropped this often while it is opened; it is made anew then.
constexpr int kDropsMax = 10;

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
  TOPICDB_RETURN_IF_ERROR(CheckQuotaTrim(options.quota_trim));
  if (options.maintenance_interval.count() >= 0) return Status::Ok();
  return InvalidArgument("maintenance_interval: it cannot be negative");
}

// A database that was found or made, and cannot be dropped any more.
struct HeldDatabase {
  FoundDatabase found;
  std::unique_ptr<SharedFileLock> hold;  // may be null
};

Result<HeldDatabase> FindAndHold(const std::string& path, const OpenOptions& options) {
  for (int attempt = 0;; ++attempt) {
    TOPICDB_ASSIGN_OR_RETURN(FoundDatabase found, FindOrCreateDatabase(path, options));
    auto hold = HoldDatabase(path, options.read_only ? HolderKind::kReader : HolderKind::kWriter);
    if (hold.ok()) return HeldDatabase{std::move(found), std::move(*hold)};
    const bool was_dropped = hold.status().code() == Code::kNotFound;
    if (!was_dropped || options.read_only || attempt == kDropsMax) return hold.status();
  }
}

}  // namespace

DatabaseImpl::DatabaseImpl(std::shared_ptr<const ShardEnvironment> environment,
                           std::unique_ptr<ShardSource> source, const OpenOptions& options)
    : environment_(std::move(environment)),
      durability_(options.durability),
      shards_(environment_, std::move(source), options.only_shards, options.on_damage),
      jobs_(environment_, shards_, closing_),
      upkeep_(environment_, shards_, closing_, options) {}

Result<std::shared_ptr<DatabaseImpl>> DatabaseImpl::Open(const std::string& path,
                                                         const OpenOptions& options,
                                                         const MakeShardSource& make) {
  TOPICDB_RETURN_IF_ERROR(CheckOptions(options));
  TOPICDB_ASSIGN_OR_RETURN(HeldDatabase held, FindAndHold(path, options));
  const auto environment = MakeShardEnvironment(path, held.found, options);
  auto source = make ? make(environment) : std::make_unique<LocalShards>(environment);
  auto database = std::make_shared<DatabaseImpl>(environment, std::move(source), options);
  database->hold_ = std::move(held.hold);
  TOPICDB_RETURN_IF_ERROR(database->shards_.Open());
  if (!options.read_only) {
    TOPICDB_RETURN_IF_ERROR(database->jobs_.Start());
    database->upkeep_.Start(options.maintenance_interval);
  }
  return database;
}

Result<std::shared_ptr<DatabaseImpl>> DatabaseImpl::OpenUpload(const Upload& upload,
                                                               OpenOptions options) {
  options.read_only = true;
  TOPICDB_RETURN_IF_ERROR(CheckOptions(options));
  TOPICDB_ASSIGN_OR_RETURN(std::shared_ptr<FetchedFiles> files,
                           FetchedFiles::Fetch(upload, options.only_shards));
  auto found = FindOrCreateDatabase(files->directory(), options);
  if (!found.ok()) return found.status().WithContext(upload.url);
  const auto environment = MakeShardEnvironment(files->directory(), *found, options);
  environment->database_path = upload.url;
  environment->resources.objects = files->env();
  environment->files = std::move(files);
  auto database = std::make_shared<DatabaseImpl>(
      environment, std::make_unique<LocalShards>(environment), options);
  TOPICDB_RETURN_IF_ERROR(database->shards_.Open());
  return database;
}

Status DatabaseImpl::CheckUsable() const {
  if (fork_guard_.Forked()) {
    return Forked(environment_->database_path +
                  " was opened before this process was forked: open it again in the child (or use "
                  "the 'spawn' start method)");
  }
  return closing_.load() ? Closed(environment_->database_path + " is closed") : Status::Ok();
}

Status DatabaseImpl::Refresh() {
  if (!environment_->read_only) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules,
                           LoadRetention(environment_->directory, environment_->schema.retention));
  environment_->retention->Set(std::move(rules));
  return shards_.Open();
}

Status DatabaseImpl::CheckIsHere(const DatabaseId& asked, const char* what) const {
  if (asked == environment_->database) return Status::Ok();
  return NotFound(std::string(what) + " belongs to another database than " +
                  environment_->database_path);
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
    const std::function<std::shared_ptr<SubscriptionHub>()>& make,
    const SubscriptionHub* unfit) const {
  const MutexLock lock(hub_mutex_);
  std::shared_ptr<SubscriptionHub> hub = hub_.lock();
  if (hub == nullptr || hub.get() == unfit) hub_ = hub = make();
  return hub;
}

Status DatabaseImpl::Close() {
  if (fork_guard_.Forked()) return CheckUsable();
  if (closing_.exchange(true)) {
    const WriterLock wait(lifecycle_);  // until the other Close is done
    return Status::Ok();
  }
  jobs_.Stop();
  upkeep_.Stop();
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
  const Status closed = shards_.Close();
  hold_.reset();
  return closed;
}

}  // namespace topicdb
