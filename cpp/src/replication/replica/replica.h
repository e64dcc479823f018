// One replica of a shard.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/digest/digester.h"
#include "replication/raft/raft_site.h"
#include "replication/replica/healer.h"
#include "replication/replica/leader_link.h"
#include "replication/replica/reign.h"
#include "replication/replica/reign_starter.h"
#include "replication/replica/replica_copy.h"
#include "replication/replica/snapshot_carrier.h"
#include "store/shard/shard.h"
#include "topicdb/types/replicas.h"

namespace topicdb::replication {

struct ReplicaOptions {
  std::uint64_t group = 0;            // of the consensus; the same in all replicas of the shard
  std::vector<std::uint64_t> voters;  // the first members of the group
  // How long a write waits for a majority before its outcome is unknown.
  std::chrono::milliseconds commit_patience{10'000};
  // After this many bytes of entries, or this long, RocksDB moves what it has in memory to files.
  // Then the log may be cut, and a replica that starts again applies no more than this.
  std::uint64_t flush_bytes = std::uint64_t{64} << 20;
  std::chrono::milliseconds flush_interval{60'000};
  // Whether the replica fills itself anew from another one if its RocksDB is damaged.
  bool heals = false;
  // Returns the format of the cluster that is in force; empty: the newest one.
  std::function<std::uint32_t()> format;
};

// A replica of a shard, in a group of the consensus. It follows, which means that it applies what
// the leader writes, until the consensus makes it the leader. Then it writes an entry with which
// its reign begins, applies everything up to that entry, and lets the shard be written. It follows
// again as soon as another replica may lead.
//
// Its shard may be read all the time. What is written to it while it follows, the replica that
// leads does: see LeaderLink. A snapshot of another replica is a shard of its own, which takes the
// place of the one before. That one is closed and removed once nobody has it any more; until then
// it stays as it was.
//
// The program that runs a site owns it. Close it, and then the site. Thread-safe.
//
// If the RocksDB is damaged, and the options say so, the replica is *healed*: it applies nothing,
// and leads no more, until a snapshot of another replica has taken the place of the shard. Its log
// has lost nothing, so it votes and takes entries meanwhile, and gets those again that the snapshot
// lacks. The damaged directory is kept in the quarantine of the database. Until the snapshot is
// there, the damaged shard may be read; one that cannot be opened is empty.
//
// Lock rule: mutex_ comes after the mutex of the site and before those of the reign, of its
// starter, of the healer, of the copy and of the view of the shard. Nobody waits for the site,
// RocksDB or a commit while holding it.
class Replica : private RaftClient {
 public:
  // Opens the replica of a shard, and joins its group. Makes the shard if its directory is not
  // there. `site` must outlive it. Returns what ReplicaCopy::Open and RaftSite::Join return; a
  // replica that is healed is opened although it is damaged.
  static Result<std::unique_ptr<Replica>> Open(RaftSite* site,
                                               std::shared_ptr<const ShardEnvironment> environment,
                                               std::uint32_t index, ReplicaOptions options);
  ~Replica() override { Close().IgnoreError(); }

  // Returns the shard, for writing, once this replica leads. Returns kNotLeader if another one
  // leads or if no leader is known within `patience`, and the reason if this replica has failed.
  Result<std::shared_ptr<Shard>> Lead(std::chrono::milliseconds patience) TOPICDB_EXCLUDES(mutex_);
  // Returns the shard, for reading, once its view has the commit `at_least`: kNoSerial asks for
  // nothing. So whoever has written at another replica reads here what was written. Returns kStale
  // if that takes longer than `patience`, and the reason if this replica has failed.
  Result<std::shared_ptr<Shard>> Read(Serial at_least, std::chrono::milliseconds patience)
      TOPICDB_EXCLUDES(mutex_);
  // Waits until some leader has made the shard, and returns whether that is so.
  bool AwaitMade(std::chrono::milliseconds patience) TOPICDB_EXCLUDES(mutex_);
  // Returns the shard as it is now.
  std::shared_ptr<Shard> shard() const { return copy_.shard(); }
  // As ReplicaCopy::Watch.
  void Watch(std::function<void(std::shared_ptr<Shard>)> replace) {
    copy_.Watch(std::move(replace));
  }
  ReplicaState state() const TOPICDB_EXCLUDES(mutex_);
  // Returns the last entry that is applied here.
  std::uint64_t applied() const TOPICDB_EXCLUDES(mutex_);
  RaftPosition position() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return position_;
  }
  // Returns why it has failed, or Ok.
  Status failure() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return failure_;
  }
  // Returns why it is being healed, or Ok.
  Status damage() const { return healer_.damage(); }
  // Has the replica be healed, also if its options do not say so, and does not wait. Nothing if it
  // is healed already. Returns kCluster if the group has no other replica, and the reason if the
  // replica has failed by another cause than damage.
  Status Heal() TOPICDB_EXCLUDES(mutex_);
  // Waits until it is not being healed. Returns kStale if that takes longer than `patience`, and
  // the reason if the replica has failed.
  Status AwaitHealed(std::chrono::milliseconds patience) TOPICDB_EXCLUDES(mutex_);
  // Takes part no more, for this reason: the site has left the cluster. The shard may still be
  // read.
  void Retire(const Status& why) TOPICDB_EXCLUDES(mutex_) { Fail(why); }
  // Has all replicas of the shard make a digest of what they have after an entry that this call
  // adds to the log, and returns its place. Returns kNotLeader if this replica does not lead.
  Result<LogPlace> BeginDigest() TOPICDB_EXCLUDES(mutex_);
  // Returns the digest of this replica at a place that BeginDigest has returned. Returns kStale
  // while it is being made, or the entry has not come, kCorruption or kStorage if the replica
  // cannot be read, and kNotFound if it was not made, as it is if the replica was opened since.
  Result<ReplicaDigest> DigestAt(const LogPlace& place) const TOPICDB_EXCLUDES(mutex_);
  // Returns "shard 2 of fleet.db", for messages.
  const std::string& name() const { return name_; }

  // Hands leadership over if it leads and another replica can take it, moves everything to files,
  // and leaves the group. May be repeated. REQUIRES: no other call is under way, and nobody uses a
  // shard that this replica has given out, or holds a view of it
  Status Close() TOPICDB_EXCLUDES(mutex_);

 private:
  Replica(RaftSite* site, std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index,
          ReplicaOptions options);

  // RaftClient, in the thread of the site.
  void TakeCommitted(const std::vector<CommittedEntry>& entries) override TOPICDB_EXCLUDES(mutex_);
  void TakePosition(const RaftPosition& position) override TOPICDB_EXCLUDES(mutex_);
  void TakeStop(const Status& why) override TOPICDB_EXCLUDES(mutex_) { Fail(why); }
  void MakeSnapshot() override { carrier_.Take(); }
  bool FetchSnapshot(std::string_view manifest) override TOPICDB_EXCLUDES(mutex_);
  Status InstallSnapshot() override TOPICDB_EXCLUDES(mutex_);
  Result<std::string> Answer(std::string_view request) override;

  // Has whoever waits look again.
  void Wake() TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  }
  // Returns Ok, or why this site may ask others nothing: it is none of the cluster, or too old.
  Status Standing() const TOPICDB_EXCLUDES(mutex_) {
    Status why = failure();
    return why.code() == Code::kCluster || why.code() == Code::kSchema ? why : Status::Ok();
  }
  // Waits until the log is applied here up to this entry, this replica leads, or it takes part no
  // more.
  void AwaitApplied(std::uint64_t index, std::chrono::milliseconds patience)
      TOPICDB_EXCLUDES(mutex_);

  // Returns whether nothing more comes: it has failed, or is being closed.
  bool AppliesNoMore() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return closing_ || !failure_.ok();
  }

  // What the worker does next; null: it ends.
  using Step = void (Replica::*)();

  // What the thread does that applies entries, and changes between following and leading.
  void Work() TOPICDB_EXCLUDES(mutex_);
  // Waits until there is something to do.
  Step AwaitStep() TOPICDB_EXCLUDES(mutex_);
  // Puts the snapshot that was fetched for the consensus in the place of the shard.
  void InstallFetched() TOPICDB_EXCLUDES(mutex_);
  // Does so. Returns the index of the last entry in it.
  Result<std::uint64_t> TakeSnapshot() TOPICDB_EXCLUDES(mutex_);

  // Opens the shard, and has the replica be healed if it is damaged. Of Open.
  Status OpenCopy() TOPICDB_EXCLUDES(mutex_);
  // Joins the group. Has the replica be healed if its data does not fit its log. Of Open.
  Status JoinGroup() TOPICDB_EXCLUDES(mutex_);
  // Has the replica be healed if it may be and this is damage, else fail. By the worker.
  void Damage(const Status& why) TOPICDB_EXCLUDES(mutex_);
  // The same for other threads, and only if it is to be healed.
  void ReportDamage(const Status& why) TOPICDB_EXCLUDES(mutex_);
  void BeginToHeal(const Status& why) TOPICDB_EXCLUDES(mutex_);
  void HealAsAsked() TOPICDB_EXCLUDES(mutex_) { BeginToHeal(healer_.TakeAsked()); }
  // Puts what was fetched from another replica in the place of the damaged shard.
  void TakeRefill() TOPICDB_EXCLUDES(mutex_);
  // Changes the state, unless the replica has failed, and tells the starter.
  void SetState(ReplicaState state) TOPICDB_REQUIRES(mutex_);
  // Makes the digest of what the shard has now.
  void TakeDigest(const LogPlace& place) TOPICDB_EXCLUDES(mutex_) {
    digester_.Take(place, shard());
  }
  void RemoveRetired() { copy_.RemoveRetired(); }
  // Moves everything to files, and lets the log be cut.
  void FlushAll() TOPICDB_EXCLUDES(mutex_);
  // Makes the source of a snapshot from the shard, if this replica leads.
  Result<std::unique_ptr<SnapshotSource>> MakeSource(const std::string& directory)
      TOPICDB_EXCLUDES(mutex_);
  bool MustGiveUp() const TOPICDB_REQUIRES(mutex_);
  // Applies the next entry. Takes over if it is the one with which this replica leads.
  void ApplyNext() TOPICDB_EXCLUDES(mutex_);
  // Leads, since the entry at `began` with which its reign begins is applied.
  void TakeOver(const LogPlace& began) TOPICDB_EXCLUDES(mutex_);
  void GiveUp() TOPICDB_EXCLUDES(mutex_);
  void Fail(const Status& why) TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  const std::shared_ptr<const ShardEnvironment> environment_;
  const ReplicaOptions options_;
  const std::string name_;

  ReplicaCopy copy_;  // Open, Work and Close use it, one after the other
  ReignStarter starter_;

  mutable Mutex mutex_;
  CondVar changed_;
  ReplicaState state_ TOPICDB_GUARDED_BY(mutex_) = ReplicaState::kFollowing;
  RaftPosition position_ TOPICDB_GUARDED_BY(mutex_);
  Status failure_ TOPICDB_GUARDED_BY(mutex_);
  // The entry behind what it was filled with, until that comes. Others that come before were given
  // to the shard that was damaged.
  std::uint64_t awaits_ TOPICDB_GUARDED_BY(mutex_) = 0;
  bool closing_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::uint64_t applied_ TOPICDB_GUARDED_BY(mutex_) = 0;  // the last entry before the reign
  KeptEntries to_apply_ TOPICDB_GUARDED_BY(mutex_);       // while there is no reign
  std::shared_ptr<Reign> reign_ TOPICDB_GUARDED_BY(mutex_);
  std::shared_ptr<ReplicatedShardLog> led_ TOPICDB_GUARDED_BY(mutex_);  // while it leads
  // Whether the files have the shard, since it was made. Before that, others find no database
  // there.
  bool files_have_shard_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::uint64_t unflushed_bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;  // of entries, about
  std::chrono::steady_clock::time_point flushed_at_ TOPICDB_GUARDED_BY(mutex_);
  // Whether a snapshot is to be installed, and how that ended.
  bool installs_ TOPICDB_GUARDED_BY(mutex_) = false;
  Status installed_ TOPICDB_GUARDED_BY(mutex_);

  Digester digester_;
  SnapshotCarrier carrier_;
  Healer healer_;
  const std::shared_ptr<LeaderLink> link_;
  std::thread worker_;
};

}  // namespace topicdb::replication
