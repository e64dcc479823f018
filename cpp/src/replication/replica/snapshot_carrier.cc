#include "replication/replica/snapshot_carrier.h"

#include <utility>

#include "base/file/files.h"
#include "replication/snapshot/shard_copies.h"
#include "replication/snapshot/snapshot_fetch.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;

// How long a replica waits for a part of a file.
constexpr std::chrono::milliseconds kChunkPatience(10'000);
// After this long without a request nobody fetches a snapshot any more. Its files may keep space
// that the shard would have freed.
constexpr std::chrono::minutes kKeptUnread(5);
constexpr std::size_t kSourcesMax = 2;

}  // namespace

SnapshotCarrier::SnapshotCarrier(RaftSite* site, std::uint64_t group, std::string shard_directory,
                                 MakeSource make)
    : site_(*site),
      group_(group),
      shard_directory_(std::move(shard_directory)),
      make_(std::move(make)) {
  RemoveTree(shard_directory_ + ".outgoing").IgnoreError();  // else making a snapshot fails
  worker_ = std::thread([this] { Work(); });
}

void SnapshotCarrier::Take() {
  const MutexLock lock(mutex_);
  must_make_ = true;
  changed_.NotifyAll();
}

Result<bool> SnapshotCarrier::Fetch(std::string_view manifest) {
  TOPICDB_ASSIGN_OR_RETURN(SnapshotManifest decoded, DecodeManifest(manifest));
  const MutexLock lock(mutex_);
  if (fetched_ == decoded) return true;
  wanted_ = std::move(decoded);
  changed_.NotifyAll();
  return false;
}

Result<SnapshotManifest> SnapshotCarrier::Install() {
  const MutexLock lock(mutex_);
  if (!fetched_.has_value()) return NotFound("no snapshot was fetched for " + shard_directory_);
  TOPICDB_RETURN_IF_ERROR(
      InstallSnapshot(shard_directory_ + ".incoming", shard_directory_, fetched_->applied.index));
  SnapshotManifest installed = std::move(*fetched_);
  fetched_.reset();
  return installed;
}

Result<std::string> SnapshotCarrier::Offer(std::string_view request) {
  TOPICDB_ASSIGN_OR_RETURN(const SnapshotWish wish, DecodeSnapshotWish(request));
  const MutexLock lock(mutex_);
  if (!sources_.empty() && sources_.back()->manifest().applied.index >= wish.least) {
    read_at_ = Clock::now();
    return Encode(sources_.back()->manifest());
  }
  must_make_ = true;
  changed_.NotifyAll();
  return NotFound("a snapshot is being made");
}

Result<std::string> SnapshotCarrier::Answer(std::string_view request) {
  if (IsSnapshotWish(request)) return Offer(request);
  TOPICDB_ASSIGN_OR_RETURN(const ChunkRequest asked, DecodeChunkRequest(request));
  std::shared_ptr<const SnapshotSource> source;
  {
    const MutexLock lock(mutex_);
    for (const auto& one : sources_) {
      if (one->manifest().applied.index == asked.index) source = one;
    }
    read_at_ = Clock::now();
  }
  if (source == nullptr) {
    return NotFound("this replica has no snapshot up to entry " + std::to_string(asked.index) +
                    " any more");
  }
  return source->Read(asked);
}

void SnapshotCarrier::Stop() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    changed_.NotifyAll();
  }
  if (worker_.joinable()) worker_.join();
  const MutexLock lock(mutex_);
  sources_.clear();
}

void SnapshotCarrier::Work() {
  for (;;) {
    std::optional<SnapshotManifest> wanted;
    {
      const MutexLock lock(mutex_);
      while (!stops_ && !must_make_ && !wanted_.has_value()) {
        if (sources_.empty()) {
          changed_.Wait(mutex_);
        } else if (Clock::now() < read_at_ + kKeptUnread) {
          changed_.WaitUntil(mutex_, read_at_ + kKeptUnread);
        } else {
          sources_.clear();
        }
      }
      if (stops_) return;
      if (!std::exchange(must_make_, false)) wanted = wanted_;
    }
    if (wanted.has_value()) {
      FetchOne(*wanted);
    } else {
      MakeOne();
    }
  }
}

void SnapshotCarrier::MakeOne() {
  const std::string outgoing = shard_directory_ + ".outgoing";
  std::string directory;
  {
    const MutexLock lock(mutex_);
    directory = outgoing + "/" + std::to_string(++made_);
  }
  const Status has_place = MakeDirectory(outgoing);
  auto made = has_place.ok() ? make_(directory) : has_place;
  if (!made.ok()) return site_.NoteSnapshotTaken(group_, 0, {});
  const SnapshotManifest& manifest = (*made)->manifest();
  const std::uint64_t index = manifest.applied.index;
  const std::string bytes = Encode(manifest);
  {
    const MutexLock lock(mutex_);
    sources_.push_back(std::move(*made));
    // Its destructor removes the directory, once nobody reads of it.
    if (sources_.size() > kSourcesMax) sources_.pop_front();
    read_at_ = Clock::now();
  }
  site_.NoteSnapshotTaken(group_, index, bytes);
}

void SnapshotCarrier::FetchOne(const SnapshotManifest& manifest) {
  {
    const MutexLock lock(mutex_);
    fetched_.reset();
  }
  const auto ask = [&](const ChunkRequest& request) {
    return site_.Ask(manifest.replica, group_, Encode(request), kChunkPatience);
  };
  const Status fetched = FetchSnapshot(manifest, shard_directory_ + ".incoming", ask,
                                       [&] { return IsFetchVain(manifest); });
  {
    const MutexLock lock(mutex_);
    if (wanted_ != manifest) return;  // another one is wanted now
    wanted_.reset();
    if (fetched.ok()) fetched_ = manifest;
  }
  site_.NoteSnapshotFetched(group_, fetched.ok());
}

bool SnapshotCarrier::IsFetchVain(const SnapshotManifest& manifest) const {
  const MutexLock lock(mutex_);
  return stops_ || wanted_ != manifest;
}

}  // namespace topicdb::replication
