#include "replication/digest/digester.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/thread/low_priority.h"
#include "replication/digest/family_digest.h"

namespace topicdb::replication {

namespace {

constexpr std::size_t kRemembered = 8;

}  // namespace

struct Digester::Moment {
  Moment(const LogPlace& at, std::shared_ptr<Shard> of)
      : place(at), shard(std::move(of)), opened(shard->opened()), families(opened.families->all()) {
    snapshot = opened.db->GetSnapshot();
  }
  ~Moment() { opened.db->ReleaseSnapshot(snapshot); }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  const LogPlace place;
  const std::shared_ptr<Shard> shard;  // keeps the RocksDB open
  const OpenedShard opened;
  const FamiliesByName families;  // also those that are dropped meanwhile
  const rocksdb::Snapshot* snapshot = nullptr;
};

Digester::Digester(std::function<void(const Status&)> damaged) : damaged_(std::move(damaged)) {}

Digester::~Digester() { Stop(); }

void Digester::Take(const LogPlace& place, std::shared_ptr<Shard> shard) {
  if (stops_) return;
  auto moment = std::make_unique<Moment>(place, std::move(shard));
  const MutexLock lock(mutex_);
  if (next_ != nullptr) {
    const LogPlace before = next_->place;
    const auto skipped = std::find_if(made_.begin(), made_.end(),
                                      [&](const Made& made) { return made.place == before; });
    if (skipped != made_.end()) made_.erase(skipped);
  }
  next_.swap(moment);
  made_.push_back({place, Stale("the digest is being made"), {}});
  if (made_.size() > kRemembered) made_.pop_front();
  if (!worker_.joinable()) worker_ = std::thread([this] { Work(); });
  changed_.NotifyAll();
}

Result<ReplicaDigest> Digester::Find(const LogPlace& place) const {
  const MutexLock lock(mutex_);
  for (const Made& made : made_) {
    if (made.place != place) continue;
    if (!made.status.ok()) return made.status;
    return made.digest;
  }
  return NotFound("no digest was made at entry " + std::to_string(place.index));
}

void Digester::Stop() {
  std::thread worker;
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    worker.swap(worker_);
    changed_.NotifyAll();
  }
  if (worker.joinable()) worker.join();
  std::unique_ptr<Moment> left;
  const MutexLock lock(mutex_);
  left.swap(next_);
}

void Digester::Work() {
  TakeLowPriority();
  for (;;) {
    std::unique_ptr<Moment> moment;
    {
      const MutexLock lock(mutex_);
      while (!stops_ && next_ == nullptr) changed_.Wait(mutex_);
      if (stops_) return;
      moment.swap(next_);
    }
    auto digest = Read(*moment);
    const LogPlace place = moment->place;
    const std::string name = moment->shard->Name();
    moment.reset();  // whoever waits for it may close the shard
    const Status status = digest.status();
    {
      const MutexLock lock(mutex_);
      for (Made& made : made_) {
        if (made.place != place) continue;
        made.status = status;
        if (digest.ok()) made.digest = std::move(*digest);
      }
    }
    if (status.code() == Code::kCorruption) damaged_(status.WithContext(name));
  }
}

Result<ReplicaDigest> Digester::Read(const Moment& moment) const {
  ReplicaDigest digest;
  digest.place = moment.place;
  const auto add = [&](rocksdb::ColumnFamilyHandle* family) {
    const auto stops = [this] { return stops_.load(); };
    auto read = DigestFamily(moment.opened.db, family, moment.snapshot, stops);
    if (read.ok() && read->keys > 0) digest.families.push_back(std::move(*read));
    return read.status();
  };
  TOPICDB_RETURN_IF_ERROR(add(moment.opened.default_family.get()));
  for (const auto& [name, family] : moment.families) TOPICDB_RETURN_IF_ERROR(add(family->get()));
  std::sort(digest.families.begin(), digest.families.end(),
            [](const FamilyDigest& a, const FamilyDigest& b) { return a.family < b.family; });
  return digest;
}

}  // namespace topicdb::replication
