// Brings the messages of the commit log to subscribers.
//
// - One thread waits for commits. It reads new messages once for all live lanes of a shard, and
//   offers each lane what it wants.
// - Other threads read for lanes that are behind. A page begins where one of these lanes is, and
//   serves all lanes that are near. Pages are kept for a while, so that a lane that comes to the
//   same place a little later needs no read. Once something of the shard is removed, its kept pages
//   are not used any more. A lane that has come to where the live lanes are joins them.
//
// A subscriber that takes no more (its window is full, or it is paused) stays behind at its place.
// Nobody waits for it. Once it has room, it continues from a kept page or from disk.
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
#include "topicdb/types/numbers.h"

namespace topicdb {

// Where a lane begins in its shard.
struct LaneStart {
  CommitPlace place;
  Serial counted;                                // see SubscribeFrom
  std::shared_ptr<const GivenReads> given = {};  // null: nothing
};
using LaneStarts = std::map<std::uint32_t, LaneStart>;

// Reads the commit log for all subscribers of a database, with threads of its own. The
// subscriptions share it, and the last one ends it. Thread-safe. Lock order: the database's
// lifecycle(), then mutex_, then the mutex of a PageReader or Subscriber, or those that the
// database and a shard need to give a view. Nothing is read while mutex_ is held.
class SubscriptionHub : public ViewHolder {
 public:
  // REQUIRES: the database's lifecycle() is held shared
  explicit SubscriptionHub(std::shared_ptr<DatabaseImpl> database);
  ~SubscriptionHub() override;

  // Returns whether it serves all shards that are open now. A hub serves those that were open when
  // it was made.
  bool ServesAllShards() const;
  // Adds a subscriber, and returns the number by which the other methods know it. `starts` has an
  // entry for every shard that the hub serves.
  std::uint64_t Add(std::shared_ptr<Subscriber> subscriber, const Wanted& wanted,
                    const LaneStarts& starts) TOPICDB_EXCLUDES(mutex_);
  void Remove(std::uint64_t client) TOPICDB_EXCLUDES(mutex_);
  // Tells the hub that the subscriber takes messages again.
  void Reopen(std::uint64_t client) TOPICDB_EXCLUDES(mutex_);
  // See Subscription::Find.
  Result<PlacedMessages> Find(std::uint32_t shard, const std::vector<Filter>& filters,
                              const std::vector<CommitPlace>& places,
                              const InterruptCheck& interrupted) const;
  // Fills in `info`, including what Subscriber::Info does not know. Leaves it as it is if the
  // subscriber was removed.
  void Complete(std::uint64_t client, SubscriptionInfo* info) const TOPICDB_EXCLUDES(mutex_);
  // Returns what was read for all subscribers, and what is kept.
  SubscriptionStats Stats() const TOPICDB_EXCLUDES(mutex_);

  // Return whether this process was forked from the one that made the hub, and kForked if it was.
  bool Forked() const { return database_->fork_guard().Forked(); }
  Status CheckNotForked() const { return Forked() ? database_->CheckUsable() : Status::Ok(); }
  // Ends the hub when the database closes: fails all subscribers, and lets the threads end.
  // REQUIRES: the database's lifecycle() is held, shared or alone
  void Release() override TOPICDB_EXCLUDES(mutex_);

 private:
  // A page that must be read for lanes that are behind.
  struct Errand {
    Track* track = nullptr;
    CommitPlace from;
    SharedInterest first;                   // of the lane at `from`
    std::vector<SharedInterest> interests;  // of all lanes that are near
    std::uint64_t last_client = 0;          // the newest one when the errand began
    Serial drops_until;                     // the last drop that the track knows
    std::uint64_t drops_version = 0;
    std::shared_ptr<const GivenReads> given;  // to the lane at `from`
  };
  // A page, and the drops that its track must learn before the page is offered.
  struct Read {
    std::shared_ptr<LogPage> page;
    Track::Drops drops;
  };

  // The loops of the threads. RunLive reads for the live lanes, RunCatchUp for lanes that are
  // behind.
  void RunLive() TOPICDB_EXCLUDES(mutex_);
  void RunCatchUp() TOPICDB_EXCLUDES(mutex_);
  // Reads what is new in all shards, for the live lanes. Returns kClosed if the database is closed.
  Status LivePass() TOPICDB_EXCLUDES(mutex_);
  // Reads one page of a shard for its live lanes. Returns whether there may be more.
  bool LiveStep(const std::shared_ptr<Shard>& shard) TOPICDB_EXCLUDES(mutex_);
  // Serves lanes from a kept page, or does an errand. Returns false if no lane can be served, and
  // kClosed if the database is closed.
  Result<bool> CatchUpStep() TOPICDB_EXCLUDES(mutex_);
  // Returns a track that has a lane to serve, or null if there is none. The tracks take turns.
  Track* NextTrack() TOPICDB_REQUIRES(mutex_);
  // Serves lanes from a kept page. Returns false if there is none for `lane`.
  bool ServeKept(Track* track, const Lane& lane) TOPICDB_REQUIRES(mutex_);
  // Returns whether nothing of the shard was removed since the page was read. Forgets the kept
  // pages of the shard that are not current.
  bool IsCurrent(const LogPage& page) TOPICDB_REQUIRES(mutex_);
  // Returns the removals version of the shard's present view.
  // REQUIRES: the database's lifecycle() is held
  std::uint64_t RemovalsVersionOf(std::uint32_t shard) const;
  // Reads for all lanes that are near. If that fails, reads for the first lane alone.
  Result<Read> ReadFor(const Errand& errand) TOPICDB_EXCLUDES(mutex_);
  // Offers what was read to the lanes, or fails the subscribers whose lanes wait for it.
  void Finish(const Errand& errand, Result<Read> read) TOPICDB_EXCLUDES(mutex_);
  // Waits until there is something to do. After a while, gives back pages and cursors that are
  // kept.
  void RestReaders() TOPICDB_EXCLUDES(mutex_);
  // Fails all subscribers, and removes them.
  void FailAll(const Status& status) TOPICDB_EXCLUDES(mutex_);

  // Returns the track of a shard, or null if there is none.
  Track* FindTrack(std::uint32_t shard) const;
  // Returns the interest of all subscribers that want this, and makes it if there is none.
  SharedInterest InterestOf(const Wanted& wanted) TOPICDB_REQUIRES(mutex_);
  // Wakes the live thread.
  void WakeLive() const { database_->environment().commits->Notify(); }
  bool IsStopping() const { return stopping_.load(std::memory_order_relaxed); }

  const std::shared_ptr<DatabaseImpl> database_;
  std::atomic<bool> stopping_{false};
  const std::vector<std::unique_ptr<Track>> tracks_;  // mutex_ guards their content
  mutable Mutex mutex_;
  CondVar work_;  // for the threads that read for lanes that are behind
  std::map<std::uint64_t, std::unique_ptr<Client>> clients_ TOPICDB_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<const Interest>> interests_  // by their keys
      TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t last_client_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_interest_ TOPICDB_GUARDED_BY(mutex_) = 0;
  std::size_t next_track_ TOPICDB_GUARDED_BY(mutex_) = 0;
  PageCache cache_ TOPICDB_GUARDED_BY(mutex_);
  SubscriptionStats stats_ TOPICDB_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // the last member, since they use the others
};

}  // namespace topicdb
