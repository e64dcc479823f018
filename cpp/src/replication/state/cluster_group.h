// The group of the consensus in which all sites agree on the state of their cluster.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/raft/raft_site.h"
#include "replication/state/cluster_state.h"

namespace topicdb::replication {

struct ClusterGroupOptions {
  std::uint64_t group = 0;            // of the consensus
  std::vector<std::uint64_t> voters;  // the first members of the group
  std::string path;                   // of the file that has the state
  // The newest format with which this site can work.
  std::uint32_t newest_format = kClusterFormatNewest;
};

// Keeps the state of the cluster at this site, and changes it at all sites. The state is small, so
// the site writes it whole to a file after each change, and a snapshot is the state itself. The
// Site owns it. Close it before the RaftSite. Thread-safe.
//
// Lock rule: the mutex of the site comes first, then file_mutex_, then mutex_. Nobody waits for the
// site while holding one of the two.
class ClusterGroup : private RaftClient {
 public:
  // Reads the file, and joins the group. Returns kCorruption if the file is damaged, kSchema if it
  // is of a later version of TopicDB, and what RaftSite::Join returns.
  static Result<std::unique_ptr<ClusterGroup>> Open(RaftSite* site, ClusterGroupOptions options);
  ~ClusterGroup() override { Close(); }

  ClusterState state() const TOPICDB_EXCLUDES(mutex_);
  // Returns the format in force, without a copy of the state: each proposal to a shard asks.
  std::uint32_t format() const TOPICDB_EXCLUDES(mutex_);
  // Returns why this site does not follow the changes of the state any more, or Ok: kSchema if the
  // cluster writes a format with which this site cannot work.
  Status failure() const TOPICDB_EXCLUDES(mutex_);
  // Returns whether this site leads the group.
  bool leads() const TOPICDB_EXCLUDES(mutex_);
  // Returns whether some site is known to lead it.
  bool knows_leader() const TOPICDB_EXCLUDES(mutex_);
  // Calls `changed` now, and after each change of the state, until it is replaced. Each owner has
  // one, and none if it is empty. It must only note that: it is called with locks held.
  void Watch(const void* owner, std::function<void()> changed) TOPICDB_EXCLUDES(mutex_);
  // Changes the state at all sites: by way of the site that leads the group, if another one does.
  // Returns once the change is in the state here. Returns what Apply returns if it has no effect,
  // kNotLeader if no majority is up within `patience`, and kUnknownOutcome if the change may still
  // happen.
  Status Propose(const ClusterCommand& command, std::chrono::milliseconds patience)
      TOPICDB_EXCLUDES(mutex_);
  // Waits until the cluster is founded. Returns kNotLeader if that is not so in time.
  Status AwaitFounded(std::chrono::steady_clock::time_point deadline) const
      TOPICDB_EXCLUDES(mutex_);
  // Waits until a replica is that of no site any more. Returns kUnknownOutcome if that is not so in
  // time.
  Status AwaitLeft(std::uint64_t replica, std::chrono::steady_clock::time_point deadline) const
      TOPICDB_EXCLUDES(mutex_);
  // Leaves the group. May be repeated.
  void Close() TOPICDB_EXCLUDES(mutex_);

 private:
  // An entry that is to be applied.
  struct Committed {
    std::uint64_t index = 0;
    std::string bytes;
  };

  ClusterGroup(RaftSite* site, ClusterGroupOptions options)
      : site_(*site), options_(std::move(options)) {}

  // RaftClient.
  void TakeCommitted(const std::vector<CommittedEntry>& entries) override TOPICDB_EXCLUDES(mutex_);
  void TakePosition(const RaftPosition& position) override TOPICDB_EXCLUDES(mutex_);
  void TakeStop(const Status& why) override TOPICDB_EXCLUDES(mutex_);
  void MakeSnapshot() override TOPICDB_EXCLUDES(mutex_);
  bool FetchSnapshot(std::string_view manifest) override TOPICDB_EXCLUDES(mutex_);
  Status InstallSnapshot() override TOPICDB_EXCLUDES(file_mutex_, mutex_);
  Result<std::string> Answer(std::string_view request) override TOPICDB_EXCLUDES(mutex_);

  // What the thread does that applies entries.
  void Work() TOPICDB_EXCLUDES(file_mutex_, mutex_);
  void ApplyAll(const std::deque<Committed>& entries) TOPICDB_EXCLUDES(file_mutex_, mutex_);
  // Reads a command, and changes a state as it says. `outcome` is how that ended. Returns kSchema
  // if this site cannot know what the others do with the command.
  Status Follow(const std::string& command, ClusterState* state, Status* outcome) const;
  // Writes the state to the file, and publishes it.
  Status Publish(ClusterSnapshot now) TOPICDB_REQUIRES(file_mutex_) TOPICDB_EXCLUDES(mutex_);
  // Tells the consensus of the replicas that have left. They have lost their votes before.
  void NoteLeft(const ClusterState& state);
  // Proposes here, and waits until the entry is applied. Returns what applying it has returned.
  Status ProposeHere(const std::string& command, std::chrono::milliseconds patience)
      TOPICDB_EXCLUDES(mutex_);
  // Has the leader propose, and waits until this site has what the leader had then.
  Status ProposeAt(std::uint64_t leader, const std::string& command,
                   std::chrono::milliseconds patience) TOPICDB_EXCLUDES(mutex_);
  // Waits until this is true of the state and its entry, or the site takes part no more. Returns
  // `late` if it is not true in time.
  Status Await(const std::function<bool(const ClusterSnapshot&)>& holds,
               std::chrono::steady_clock::time_point deadline, const Status& late) const
      TOPICDB_EXCLUDES(mutex_);
  // Waits until the entry is applied here, or the site takes part no more.
  Status AwaitIndex(std::uint64_t index, std::chrono::steady_clock::time_point deadline) const
      TOPICDB_EXCLUDES(mutex_);
  void Fail(const Status& why) TOPICDB_EXCLUDES(mutex_);

  RaftSite& site_;
  const ClusterGroupOptions options_;

  Mutex file_mutex_;  // held while the state changes

  mutable Mutex mutex_;
  mutable CondVar changed_;
  ClusterSnapshot now_ TOPICDB_GUARDED_BY(mutex_);
  std::map<const void*, std::function<void()>> watches_ TOPICDB_GUARDED_BY(mutex_);
  RaftPosition position_ TOPICDB_GUARDED_BY(mutex_);
  std::deque<Committed> to_apply_ TOPICDB_GUARDED_BY(mutex_);
  // How the newest entries ended, by index, for whoever has proposed them.
  std::deque<std::pair<std::uint64_t, Status>> outcomes_ TOPICDB_GUARDED_BY(mutex_);
  ClusterSnapshot fetched_ TOPICDB_GUARDED_BY(mutex_);  // of a leader; to be installed
  Status failure_ TOPICDB_GUARDED_BY(mutex_);
  bool closing_ TOPICDB_GUARDED_BY(mutex_) = false;
  std::thread worker_;
};

}  // namespace topicdb::replication
