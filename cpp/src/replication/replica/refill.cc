#include "replication/replica/refill.h"

#include <utility>
#include <vector>

#include <rocksdb/sst_file_reader.h>

#include "base/file/files.h"
#include "replication/snapshot/shard_copies.h"
#include "replication/snapshot/snapshot_fetch.h"
#include "rocks/rocks_compat.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kWishPatience(5'000);
constexpr milliseconds kConnectPatience(1'000);
constexpr milliseconds kChunkPatience(10'000);
constexpr milliseconds kAskAgainAfter(200);
constexpr milliseconds kLookAgainAfter(20);
// How long the log may take to come to the entry of a snapshot. Then another one is fetched.
constexpr milliseconds kEntryPatience(60'000);

// The replica that has made a snapshot links its files without reading them as tables.
Status CheckTables(const std::string& directory) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  for (const std::string& name : names) {
    if (!name.ends_with(".sst")) continue;
    const std::string path = directory + "/" + name;
    rocksdb::SstFileReader reader{rocksdb::Options()};
    rocksdb::Status checked = reader.Open(path);
    if (checked.ok()) checked = reader.VerifyChecksum();
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(checked, "checking " + path));
  }
  return Status::Ok();
}

}  // namespace

Refill::Refill(RaftSite* site, std::uint64_t group, const std::string& shard_directory,
               std::function<void(SnapshotManifest)> done)
    : site_(*site),
      group_(group),
      directory_(RefillDirectory(shard_directory)),
      done_(std::move(done)) {}

void Refill::Begin() {
  const MutexLock lock(mutex_);
  if (stops_) return;
  is_wanted_ = true;
  if (!worker_.joinable()) worker_ = std::thread([this] { Work(); });
  changed_.NotifyAll();
}

void Refill::Cancel() {
  const MutexLock lock(mutex_);
  is_wanted_ = false;
  changed_.NotifyAll();
}

void Refill::Stop() {
  std::thread worker;
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    worker.swap(worker_);
    changed_.NotifyAll();
  }
  if (worker.joinable()) worker.join();
}

bool Refill::IsVain() const {
  const MutexLock lock(mutex_);
  return stops_ || !is_wanted_;
}

Status Refill::Pause(milliseconds time) {
  const auto until = Clock::now() + time;
  const MutexLock lock(mutex_);
  while (!stops_ && is_wanted_ && Clock::now() < until) changed_.WaitUntil(mutex_, until);
  return stops_ || !is_wanted_ ? Interrupted() : Status::Ok();
}

void Refill::Work() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!stops_ && !is_wanted_) changed_.Wait(mutex_);
      if (stops_) return;
    }
    auto fetched = TryAll();
    if (!fetched.ok()) {
      Pause(kAskAgainAfter).IgnoreError();
      continue;
    }
    {
      const MutexLock lock(mutex_);
      if (stops_ || !std::exchange(is_wanted_, false)) continue;
    }
    done_(std::move(*fetched));
  }
}

Result<SnapshotManifest> Refill::TryAll() {
  TOPICDB_ASSIGN_OR_RETURN(const RaftStatus status, site_.StatusOf(group_));
  Status last = NotFound("there is no other replica");
  for (const RaftMember& member : status.members) {
    if (member.replica == site_.replica()) continue;
    // The log goes on from any snapshot that has what the log has forgotten.
    auto fetched = FetchFrom(member.replica, status.first - 1);
    if (fetched.ok() || IsVain()) return fetched;
    last = fetched.status();
  }
  return last;
}

Result<SnapshotManifest> Refill::FetchFrom(std::uint64_t replica, std::uint64_t least) {
  const std::string wish = Encode(SnapshotWish{least});
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes,
                           site_.Ask(replica, group_, wish, kWishPatience, kConnectPatience));
  TOPICDB_ASSIGN_OR_RETURN(SnapshotManifest manifest, DecodeManifest(bytes));
  if (manifest.applied.index < least) return NotFound("the snapshot is too old");
  const auto ask = [&](const ChunkRequest& request) {
    return site_.Ask(replica, group_, Encode(request), kChunkPatience);
  };
  TOPICDB_RETURN_IF_ERROR(FetchSnapshot(manifest, directory_, ask, [this] { return IsVain(); }));
  if (const Status checked = CheckTables(directory_); !checked.ok()) {
    RemoveTree(directory_).IgnoreError();  // else the next attempt goes on with it
    return checked;
  }
  TOPICDB_RETURN_IF_ERROR(AwaitEntry(manifest.applied.index));
  return manifest;
}

Status Refill::AwaitEntry(std::uint64_t index) {
  const auto deadline = Clock::now() + kEntryPatience;
  for (;;) {
    TOPICDB_ASSIGN_OR_RETURN(const RaftStatus status, site_.StatusOf(group_));
    if (status.first > index + 1) return NotFound("the log has forgotten what comes next");
    if (status.committed >= index) return Status::Ok();
    if (Clock::now() >= deadline) return NotFound("the entry of the snapshot does not come");
    TOPICDB_RETURN_IF_ERROR(Pause(kLookAgainAfter));
  }
}

}  // namespace topicdb::replication
