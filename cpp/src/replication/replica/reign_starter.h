// Begins the reigns of a replica.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "base/thread/mutex.h"
#include "replication/raft/raft_site.h"

namespace topicdb::replication {

// Proposes the entry with which a reign begins, each time the consensus makes a replica its leader.
// A replica that must not lead hands over to another one instead. Both wait for other sites, so a
// thread of its own does it. The Replica owns it, and tells it what has changed. Thread-safe.
class ReignStarter {
 public:
  // What the replica is fit for. Whenever that changes, it may begin a reign again in the same
  // term.
  enum class Fitness {
    kFollows,       // it may begin a reign
    kReigns,        // it has begun one, or has one to end
    kMustNotReign,  // it applies nothing
  };

  // `site` must outlive it. A proposal waits for `patience`.
  ReignStarter(RaftSite* site, std::uint64_t group, std::chrono::milliseconds patience)
      : site_(*site), group_(group), patience_(patience) {}
  ~ReignStarter() { Stop(); }
  ReignStarter(const ReignStarter&) = delete;
  ReignStarter& operator=(const ReignStarter&) = delete;

  // Starts its thread, once the replica has joined its group.
  void Start() TOPICDB_EXCLUDES(mutex_);
  // Takes what is so now. Does not wait.
  void Tell(const RaftPosition& position, Fitness fitness) TOPICDB_EXCLUDES(mutex_);
  // Ends its thread, after what it waits for. May be repeated.
  void Stop() TOPICDB_EXCLUDES(mutex_);
  // Hands leadership over to another voter. Returns whether one takes it.
  bool LetAnotherLead();

 private:
  // What is to be done for a term in which the replica leads.
  struct Task {
    std::uint64_t term;
    bool hands_over;
  };

  void Work() TOPICDB_EXCLUDES(mutex_);
  // Waits until the replica leads in a term for which nothing was done. Returns nothing at the end.
  std::optional<Task> AwaitTask() TOPICDB_EXCLUDES(mutex_);
  // Waits, and has the same done again for the term, if it is still the one that was begun last.
  void TryAgainAfter(std::uint64_t term, std::chrono::milliseconds time) TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  const std::uint64_t group_;
  const std::chrono::milliseconds patience_;

  Mutex mutex_;  // nobody takes another one while holding it
  CondVar changed_;
  RaftPosition position_ TOPICDB_GUARDED_BY(mutex_);
  Fitness fitness_ TOPICDB_GUARDED_BY(mutex_) = Fitness::kFollows;
  std::uint64_t begun_term_ TOPICDB_GUARDED_BY(mutex_) = 0;  // the last for which it was done
  bool stops_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread worker_;
};

}  // namespace topicdb::replication
