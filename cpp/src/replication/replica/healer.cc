#include "replication/replica/healer.h"

#include <utility>

namespace topicdb::replication {

Healer::Healer(RaftSite* site, std::uint64_t group, const std::string& shard_directory,
               bool is_automatic, std::function<void()> changed)
    : is_automatic_(is_automatic),
      refill_(site, group, shard_directory,
              [this, changed = std::move(changed)](const SnapshotManifest& manifest) {
                {
                  const MutexLock lock(mutex_);
                  fetched_ = manifest.applied.index;
                }
                changed();
              }) {}

Status Healer::TakeAsked() {
  const MutexLock lock(mutex_);
  return std::exchange(asked_, Status::Ok());
}

void Healer::Begin(const Status& why) {
  const MutexLock lock(mutex_);
  --heals_left_;
  damage_ = why;
}

std::optional<std::uint64_t> Healer::TakeFetched() {
  const MutexLock lock(mutex_);
  return std::exchange(fetched_, std::nullopt);
}

void Healer::End() {
  refill_.Cancel();
  const MutexLock lock(mutex_);
  damage_ = Status::Ok();
  fetched_.reset();
}

}  // namespace topicdb::replication
