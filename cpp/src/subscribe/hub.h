// Brings what is in the commit log to subscribers.
//
// - One thread waits for commits. What is new it reads once for all live lanes of a shard, and
//   offers each what it wants.
// - Others read for lanes that are behind: the part that begins where one of them is, for all that
//   are near. What they read is kept for a while, so that those who come to the same place a little
//   later need not read, unless something of the shard was removed since. A lane that has come to
//   where the live ones are joins them.
//
// A subscriber that takes no more (its window is full, or it is paused) stays where it is, behind,
// and no one waits for it: it goes on once it has room, from what is kept or from disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "store/database/database_impl.h"
#include "subscribe/page_cache.h"
#include "subscribe/track.h"
#include "topicdb/subscription.h"

namespace topicdb {

// Where a lane begins, by shard.
struct LaneStart {
  CommitPlace place;
  std::uint64_t counted = 0;  // see SubscribeFrom
};
using LaneStarts = std::map<std::uint32_t, LaneStart>;

// Thread-safe. Lock rule: the database's lifecycle(), then mutex_, then that of a PageReader or
// Subscriber, or those that the database and a shard need to give a view. Nothing is read with
// mutex_ held.
class SubscriptionHub : public ViewHolder {
 public:
  // REQUIRES: the database's lifecycle() is held shared
  explicit SubscriptionHub(std::shared_ptr<DatabaseImpl> database);
  ~SubscriptionHub() override;

  // The number by which the others know it. `starts`: of every open shard.
  std::uint64_t Add(std::shared_ptr<Subscriber> subscriber, const Wanted& wanted,
                    const LaneStarts& starts) TOPICDB_EXCLUDES(mutex_);
  void Remove(std::uint64_t client) TOPICDB_EXCLUDES(mutex_);
  // It takes more again.
  void Reopen(std::uint64_t client) TOPICDB_EXCLUDES(mutex_);
  // See Subscription::Find.
  Result<PlacedMessages> Find(std::uint32_t shard, const std::vector<Filter>& filters,
                              const std::vector<CommitPlace>& places,
                              const InterruptCheck& interrupted) const;
  // Fills in what Subscriber::Info does not know.
  void Complete(std::uint64_t client, SubscriptionInfo* info) const TOPICDB_EXCLUDES(mutex_);
  SubscriptionStats Stats() const TOPICDB_EXCLUDES(mutex_);

  bool Forked() const { return database_->fork_guard().Forked(); }
  Status CheckNotForked() const { return Forked() ? database_->CheckUsable() : Status::Ok(); }
  // REQUIRES: the database's lifecycle() is held, shared or alone.
  void Release() override TOPICDB_EXCLUDES(mutex_);

 private:
  // What is to be read for lanes that are behind.
  struct Errand {
    Track* track = nullptr;
    CommitPlace from;
    SharedInterest first;                   // of the lane that is there
    std::vector<SharedInterest> interests;  // of all that are near
    std::uint64_t last_client = 0;          // of those that were here when it began
    std::uint64_t drops_until = 0;          // that its track knows
    std::uint64_t drops_version = 0;
  };
  // A page, and what its track has to learn before it is offered.
  struct Read {
    std::shared_ptr<LogPage> page;
    Track::Drops drops;
  };

  void RunLive() TOPICDB_EXCLUDES(mutex_);
  void RunCatchUp() TOPICDB_EXCLUDES(mutex_);
  // What is new in all shards. kClosed.
  Status LivePass() TOPICDB_EXCLUDES(mutex_);
  // One page of it; whether there may be more.
  bool LiveStep(const std::shared_ptr<Shard>& shard) TOPICDB_EXCLUDES(mutex_);
  // Serves lanes from a page that is kept, or does an errand; false if nobody can go on. kClosed.
  Result<bool> CatchUpStep() TOPICDB_EXCLUDES(mutex_);
  // One with a lane that can be served, in turns; null: there is none.
  Track* NextTrack() TOPICDB_REQUIRES(mutex_);
  bool ServeKept(Track* track, const Lane& lane) TOPICDB_REQUIRES(mutex_);
  // Whether nothing of the shard was removed since it was read. What was is not kept any more.
  bool IsCurrent(const LogPage& page) TOPICDB_REQUIRES(mutex_);
  // REQUIRES: the database's lifecycle() is held.
  std::uint64_t RemovalsVersionOf(std::uint32_t shard) const;
  // For all who are near; if that fails, for the first alone.
  Result<Read> ReadFor(const Errand& errand) TOPICDB_EXCLUDES(mutex_);
  void Finish(const Errand& errand, Result<Read> read) TOPICDB_EXCLUDES(mutex_);
  // Waits until there is something to be done; after a while gives back what is kept.
  void RestReaders() TOPICDB_EXCLUDES(mutex_);
  // Nobody gets anything any more.
  void FailAll(const Status& status) TOPICDB_EXCLUDES(mutex_);

  Track* FindTrack(std::uint32_t shard) const;
  SharedInterest InterestOf(const Wanted& wanted) TOPICDB_REQUIRES(mutex_);
  // Wakes the live thread.
  void WakeLive() const { database_->environment().commits->Notify(); }
  bool IsStopping() const { return stopping_.load(std::memory_order_relaxed); }

  const std::shared_ptr<DatabaseImpl> database_;
  std::atomic<bool> stopping_{false};
  const std::vector<std::unique_ptr<Track>> tracks_;  // what they have is guarded by mutex_
  mutable Mutex mutex_;
  CondVar work_;  // for the threads that catch up
  std::map<std::uint64_t, std::unique_ptr<Client>> clients_ TOPICDB_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<const Interest>> interests_  // by their keys
      TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t last_client_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_interest_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::size_t next_track_ TOPICDB_GUARDED_BY(mutex_) = 0;
  PageCache cache_ TOPICDB_GUARDED_BY(mutex_);
  SubscriptionStats stats_ TOPICDB_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace topicdb
