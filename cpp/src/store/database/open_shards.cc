#include "store/database/open_shards.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/thread/parallel.h"
#include "rocks/files/file_state.h"
#include "store/view/shard_environment.h"

namespace topicdb {

namespace {

constexpr int kOpenPassesMax = 3;

}  // namespace

OpenShards::OpenShards(std::shared_ptr<const ShardEnvironment> environment,
                       std::optional<std::vector<std::uint32_t>> only)
    : environment_(std::move(environment)), only_(std::move(only)) {}

Status OpenShards::Open() {
  const MutexLock opening(open_mutex_);
  TOPICDB_RETURN_IF_ERROR(OpenChanged());
  if (!environment_->read_only) return Status::Ok();
  // Beside a busy writer, shards may have been opened at moments that are many jobs apart.
  for (int pass = 1; pass < kOpenPassesMax && AreFarApart(WholeMoments()); ++pass) {
    TOPICDB_RETURN_IF_ERROR(OpenChanged());
  }
  return Status::Ok();
}

Status OpenShards::OpenChanged() {
  std::vector<std::uint32_t> indexes(environment_->schema.shards);
  std::iota(indexes.begin(), indexes.end(), 0);
  if (only_.has_value()) indexes = *only_;
  std::sort(indexes.begin(), indexes.end());
  std::map<std::uint32_t, std::shared_ptr<Shard>> known;
  for (const auto& shard : All()) known[shard->index()] = shard;
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
  const MutexLock lock(mutex_);
  shards_.swap(shards);
  files_.clear();
  for (std::size_t i = 0; i < indexes.size(); ++i) files_[indexes[i]] = std::move(files[i]);
  return Status::Ok();
}

bool OpenShards::IsUnchanged(std::uint32_t shard, const std::string& files) const {
  const MutexLock lock(mutex_);
  const auto found = files_.find(shard);
  return found != files_.end() && found->second == files && !files.empty();
}

std::vector<std::shared_ptr<Shard>> OpenShards::TakeAll() {
  std::vector<std::shared_ptr<Shard>> shards;
  const MutexLock lock(mutex_);
  shards.swap(shards_);
  return shards;
}

std::vector<std::shared_ptr<Shard>> OpenShards::All() const {
  const MutexLock lock(mutex_);
  return shards_;
}

Result<std::shared_ptr<Shard>> OpenShards::Find(std::uint32_t index) const {
  std::string open;
  for (const auto& shard : All()) {
    if (shard->index() == index) return shard;
    open += (open.empty() ? "" : ", ") + std::to_string(shard->index());
  }
  return ReadOnly("shard " + std::to_string(index) + " is not open here (only_shards=[" + open +
                  "])");
}

std::vector<ShardMoment> OpenShards::Moments() const {
  std::vector<ShardMoment> moments = WholeMoments();
  if (environment_->schema.layout == LayoutKind::kColumnar) curtain_.Hide(&moments);
  return moments;
}

std::vector<ShardMoment> OpenShards::WholeMoments() const {
  std::vector<ShardMoment> moments;
  for (auto& shard : All()) {
    auto view = shard->view();
    moments.push_back({std::move(shard), std::move(view)});
  }
  return moments;
}

Status OpenShards::CheckMayWrite() const {
  if (!environment_->read_only) return Status::Ok();
  return ReadOnly(environment_->database_path + " was opened with mode='r'");
}

Status OpenShards::CheckMayWriteAll(const char* call) const {
  TOPICDB_RETURN_IF_ERROR(CheckMayWrite());
  if (All().size() == environment_->schema.shards) return Status::Ok();
  return ReadOnly(std::string(call) + ": all shards of " + environment_->database_path +
                  " have to be open for writing here, it was opened with only_shards");
}

}  // namespace topicdb
