// Keeps the members of all groups of a cluster as its sites are.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/raft/member_step.h"
#include "replication/raft/raft_site.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_group.h"

namespace topicdb::replication {

struct MemberKeeperOptions {
  std::string name;         // of this site
  std::uint64_t group = 0;  // of the cluster; those of the shards follow it
  std::string peers;        // where other sites find this one, or "" if that is not known
  // Without a leader of the cluster for longer than this, the site asks whether it is a member.
  std::chrono::milliseconds silence_max{2'000};
};

// Does in a thread of its own what the state of the cluster asks of this site:
//
// - It tells the consensus where the other sites are.
// - In each group that this site leads, it has new sites learn and then vote, and takes those out
//   that leave. The groups of the shards lose a site first. In that of the cluster it loses its
//   vote, and it goes last, so that it hears that it has left and nobody needs it then.
// - If this site leads the group of the cluster, it notes in the state when a new site has all
//   shards, and when one that leaves is in no shard any more and has no vote. It sees both in what
//   is committed here.
// - If this site hears of no leader, it asks others whether it is a member still, and says where it
//   is. If it has left, it notes that, and its replicas take part no more. The same happens if the
//   others write a format with which this site cannot work.
//
// What it does depends on the state and the groups alone. So whoever leads next goes on, and what
// was interrupted is done again. The Site owns it, and closes it before the group. Thread-safe.
//
// Lock rule: mutex_ is held while the consensus is told an address, and while nothing else is
// called.
class MemberKeeper {
 public:
  MemberKeeper(RaftSite* site, ClusterGroup* group, MemberKeeperOptions options);
  ~MemberKeeper();
  MemberKeeper(const MemberKeeper&) = delete;
  MemberKeeper& operator=(const MemberKeeper&) = delete;

  // Says where a replica is. What its site says of that does not matter any more.
  Status SetAddress(std::uint64_t replica, const std::string& address) TOPICDB_EXCLUDES(mutex_);
  // Tells the consensus where the sites are that have said so, and forgets those that have left. A
  // state that is older than one before has no effect.
  void LearnAddresses(const ClusterState& state) TOPICDB_EXCLUDES(mutex_);
  // Begins to work.
  void Start();
  // Says which replicas the database has that this site has opened.
  void SetShards(std::shared_ptr<SiteShards> shards) TOPICDB_EXCLUDES(mutex_);
  // Returns Ok while this site is a member of the cluster, or is about to be one. Otherwise returns
  // kCluster, and why; or kSchema if the site is too old for what the others write.
  Status standing() const TOPICDB_EXCLUDES(mutex_);

 private:
  void Work() TOPICDB_EXCLUDES(mutex_);
  // Does the next step in each group that this site leads. Returns whether nothing is left to do.
  bool KeepGroups(const ClusterState& state) TOPICDB_EXCLUDES(mutex_);
  // Does the next step in a group. Returns whether its members are the wanted ones.
  bool KeepGroup(std::uint64_t group, const WantedMembers& wanted);
  // Notes in the state which sites have come into all these groups, and which are in none any more.
  void NoteProgress(const ClusterState& state, const std::vector<std::uint64_t>& shards);
  // Finds out whether this site is a member still.
  void CheckStanding(const ClusterState& state) TOPICDB_EXCLUDES(mutex_);
  // Asks another site, the next one each time. Returns kCluster if this one is no member.
  Status AskForStanding(const ClusterState& state);
  // Notes why this site takes part no more.
  void NoteLeft(const Status& why) TOPICDB_EXCLUDES(mutex_);
  std::shared_ptr<SiteShards> shards() const TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  ClusterGroup& group_;
  const MemberKeeperOptions options_;

  // The thread alone uses these.
  std::size_t asked_ = 0;                           // sites, for the standing of this one
  std::chrono::steady_clock::time_point heard_at_;  // when a leader was known

  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::shared_ptr<SiteShards> shards_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t learnt_revision_ TOPICDB_GUARDED_BY(mutex_) = 0;  // of the state of the cluster
  std::map<std::uint64_t, std::string> addresses_ TOPICDB_GUARDED_BY(mutex_);  // by replica
  std::set<std::uint64_t> given_ TOPICDB_GUARDED_BY(mutex_);  // whose address SetAddress has said
  Status left_ TOPICDB_GUARDED_BY(mutex_);
  std::thread worker_;
};

}  // namespace topicdb::replication
