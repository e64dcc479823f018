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

constexpr const char* kOfRead =
    ": partial=True reads the rest, and `topicdb repair` makes a damaged shard anew";
constexpr const char* kOfChange =
    "; nothing was changed: `topicdb repair` makes a damaged shard anew";

}  // namespace

OpenShards::OpenShards(std::shared_ptr<const ShardEnvironment> environment,
                       std::unique_ptr<ShardSource> source,
                       std::optional<std::vector<std::uint32_t>> only, OnDamage on_damage)
    : environment_(std::move(environment)),
      source_(std::move(source)),
      only_(std::move(only)),
      on_damage_(on_damage) {}

Status OpenShards::Open() {
  const MutexLock opening(open_mutex_);
  TOPICDB_RETURN_IF_ERROR(OpenChanged());
  source_->Watch([this](std::shared_ptr<Shard> shard) { Replace(std::move(shard)); });
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
  std::vector<Outcome> outcomes(indexes.size());
  TOPICDB_RETURN_IF_ERROR(RunInParallel(indexes.size(), [&](std::size_t i) -> Status {
    const auto found = known.find(indexes[i]);
    TOPICDB_ASSIGN_OR_RETURN(outcomes[i],
                             OpenOne(indexes[i], found == known.end() ? nullptr : found->second));
    return Status::Ok();
  }));
  std::map<std::uint32_t, std::string> files;
  std::vector<std::shared_ptr<Shard>> shards;
  auto missing = std::make_shared<MissingShards>();
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    files[indexes[i]] = std::move(outcomes[i].files);
    if (outcomes[i].shard == nullptr) {
      missing->Add(indexes[i], outcomes[i].reason);
    } else {
      shards.push_back(std::move(outcomes[i].shard));
    }
  }
  // A database without any shard would be of no use, and a caller had better learn that at once.
  if (shards.empty() && !missing->empty()) return missing->reasons().begin()->second;
  const MutexLock lock(mutex_);
  shards_.swap(shards);
  files_.swap(files);
  missing_ = std::move(missing);
  return Status::Ok();
}

Result<OpenShards::Outcome> OpenShards::OpenOne(std::uint32_t index,
                                                const std::shared_ptr<Shard>& known) {
  Outcome outcome;
  if (environment_->read_only) {  // for Refresh, which writing handles do not need
    outcome.files =
        rocks::StateOf(ShardDirectory(environment_->directory, index), rocks::StateFiles::kLogsToo);
  }
  const bool is_unchanged = IsUnchanged(index, outcome.files);
  if (known != nullptr && is_unchanged && !outcome.files.empty()) {
    outcome.shard = known;
    return outcome;
  }
  if (const auto missing = Missing(); missing->Has(index) && is_unchanged) {
    outcome.reason = missing->reasons().at(index);
    return outcome;
  }
  Result<std::shared_ptr<Shard>> opened = source_->Open(index);
  if (opened.ok()) {
    outcome.shard = std::move(*opened);
    return outcome;
  }
  outcome.reason = opened.status();
  const bool is_left_out =
      on_damage_ == OnDamage::kSkip && known == nullptr && MayLeaveOut(outcome.reason);
  if (!is_left_out) return outcome.reason;
  return outcome;
}

bool OpenShards::IsUnchanged(std::uint32_t shard, const std::string& files) const {
  const MutexLock lock(mutex_);
  const auto found = files_.find(shard);
  return found != files_.end() && found->second == files;
}

void OpenShards::Replace(std::shared_ptr<Shard> shard) {
  const MutexLock lock(mutex_);
  for (auto& open : shards_) {
    if (open->index() == shard->index()) open.swap(shard);
  }
}

Status OpenShards::Close() {
  std::vector<std::shared_ptr<Shard>> shards;
  {
    const MutexLock lock(mutex_);
    shards.swap(shards_);
  }
  return source_->Close(shards);
}

std::vector<std::shared_ptr<Shard>> OpenShards::All() const {
  const MutexLock lock(mutex_);
  return shards_;
}

std::vector<std::shared_ptr<Shard>> OpenShards::Writable() const {
  std::vector<std::shared_ptr<Shard>> shards = All();
  std::erase_if(shards, [](const auto& shard) { return !shard->MayWrite().ok(); });
  return shards;
}

Result<std::shared_ptr<Shard>> OpenShards::Find(std::uint32_t index) const {
  std::string open;
  for (const auto& shard : All()) {
    if (shard->index() == index) return shard;
    open += (open.empty() ? "" : ", ") + std::to_string(shard->index());
  }
  TOPICDB_RETURN_IF_ERROR(Missing()->Only(index).Fault(environment_->database_path));
  return ReadOnly("shard " + std::to_string(index) + " is not open here (only_shards=[" + open +
                  "])");
}

Status OpenShards::NotOpen(std::uint32_t index) const {
  const Status missing = Missing()->Only(index).Fault(environment_->database_path);
  return missing.ok() ? NotFound("shard " + std::to_string(index) + " is not open here") : missing;
}

std::vector<ShardMoment> OpenShards::Moments() const {
  std::vector<ShardMoment> moments = WholeMoments();
  curtain_.Hide(&moments);
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
  TOPICDB_RETURN_IF_ERROR(
      Missing()->Fault(environment_->database_path, kOfChange).WithContext(call));
  if (All().size() == environment_->schema.shards) return Status::Ok();
  return ReadOnly(std::string(call) + ": all shards of " + environment_->database_path +
                  " have to be open for writing here, it was opened with only_shards");
}

Status OpenShards::CheckNotReplicated(const char* call) const {
  if (!is_replicated()) return Status::Ok();
  return ReadOnly(std::string(call) + ": " + environment_->database_path +
                  " is replicated, and this would change one replica only");
}

std::shared_ptr<const MissingShards> OpenShards::Missing() const {
  const MutexLock lock(mutex_);
  return missing_;
}

Result<MissingReasons> OpenShards::LeftOut(const std::vector<Filter>& filters, bool partial) const {
  const auto all = Missing();
  MissingReasons reasons;
  if (all->empty()) return reasons;
  const MissingShards missing = all->For(filters);
  if (!partial) TOPICDB_RETURN_IF_ERROR(missing.Fault(environment_->database_path, kOfRead));
  for (const auto& [shard, reason] : missing.reasons()) reasons[shard] = reason.message();
  return reasons;
}

Status OpenShards::CheckMayChange(const std::vector<Filter>& filters) const {
  const MissingShards missing = Missing()->For(filters);
  return missing.Fault(environment_->database_path, kOfChange);
}

}  // namespace topicdb
