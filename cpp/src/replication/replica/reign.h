// What a replica does in a term in which it leads.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/thread/mutex.h"
#include "replication/raft/raft_site.h"
#include "replication/replicated_log.h"

namespace topicdb::replication {

// An entry that a majority has, and its bytes.
struct KeptEntry {
  LogPlace place;
  KeptBytes bytes;
};
using KeptEntries = std::deque<KeptEntry>;

// The replicated log of a shard as its leader writes it, from when the replica begins to lead until
// another one may. The Replica makes one for each term in which it leads, and passes it what is
// committed. The ReplicatedShardLog of the shard proposes to it.
//
// An entry of this reign counts unless another one began before it in the log. So a proposal is
// answered only after everything up to its entry has passed.
//
// It keeps the entries that have passed and are not known to be applied here. Most are its own,
// which the thread that proposed them is about to write. If that thread has got no answer, they are
// what the replica must apply when it follows. Thread-safe.
class Reign : public ReplicatedLog {
 public:
  // `site` must outlive it. `began` is the place of the entry with which the replica began to lead,
  // and which it has applied. `patience` is how long a proposal waits for a majority. `format`
  // tells the format of the cluster that is in force; empty: the newest one. `ended` is called when
  // the reign ends by a proposal that fails, or by an entry that cannot be applied here. It takes a
  // lock that nobody holds who proposes.
  Reign(RaftSite* site, std::uint64_t group, const LogPlace& began,
        std::chrono::milliseconds patience, std::function<void()> ended,
        std::function<std::uint32_t()> format = {})
      : site_(*site),
        group_(group),
        term_(began.term),
        patience_(patience),
        ended_(std::move(ended)),
        format_(std::move(format)),
        passed_(began.index),
        applied_(began.index) {}

  Result<LogPlace> Propose(const Entry& entry) override TOPICDB_EXCLUDES(mutex_);
  void NoteApplied(const LogPlace& place) override TOPICDB_EXCLUDES(mutex_);
  void NoteFailed(const Status& why) override TOPICDB_EXCLUDES(mutex_);
  Status MayWrite() const override TOPICDB_EXCLUDES(mutex_);

  // Takes the next committed entry, which may end the reign.
  void Pass(KeptEntry entry) TOPICDB_EXCLUDES(mutex_);
  // Ends the reign: nothing more is proposed. Proposals that are under way get their answer.
  void End(const Status& why) TOPICDB_EXCLUDES(mutex_);
  bool is_over() const TOPICDB_EXCLUDES(mutex_);
  std::uint64_t term() const { return term_; }
  // Returns the index of the last entry of this replica that is applied here.
  std::uint64_t applied() const TOPICDB_EXCLUDES(mutex_);
  // Takes the entries that have passed and are behind the one at `applied`.
  // REQUIRES (TakeRest): nobody proposes any more
  KeptEntries TakeRest(std::uint64_t applied) TOPICDB_EXCLUDES(mutex_);

 private:
  // Returns whether an entry changes data here. Notes if it ends the reign.
  bool Counts(const KeptEntry& entry) TOPICDB_REQUIRES(mutex_);
  // Forgets the entries that are applied here.
  void Forget() TOPICDB_REQUIRES(mutex_);
  Result<LogPlace> AwaitPassed(const LogPlace& place) TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  const std::uint64_t group_;
  const std::uint64_t term_;
  const std::chrono::milliseconds patience_;
  const std::function<void()> ended_;
  const std::function<std::uint32_t()> format_;

  mutable Mutex mutex_;
  CondVar passes_;
  Status over_ TOPICDB_GUARDED_BY(mutex_);               // why the reign is over
  std::uint64_t passed_ TOPICDB_GUARDED_BY(mutex_) = 0;  // the last entry that has passed
  std::uint64_t applied_ TOPICDB_GUARDED_BY(mutex_);     // the last own entry that is applied here
  std::uint64_t successor_ TOPICDB_GUARDED_BY(mutex_) = 0;  // where another one began to lead, or 0
  KeptEntries kept_ TOPICDB_GUARDED_BY(mutex_);             // the first one counts
};

}  // namespace topicdb::replication
