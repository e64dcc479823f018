// What all sites of a cluster agree on. Only this file and cluster_state.cc know the bytes, which
// docs/internals/format.md draws.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"
#include "topicdb/types/replicas.h"

namespace topicdb::replication {

using ClusterId = std::array<std::uint8_t, 16>;

enum class ClusterJobKind : std::uint8_t {
  kCommit = 1,  // is committed: the shards that it names apply it
  kRemove = 2,  // was aborted: what is staged of it is removed
};

// A job that is under way. The sites apply those of one shard in the order in which they are in the
// state. A value.
struct ClusterJob {
  ClusterJobKind kind = ClusterJobKind::kCommit;
  std::string job;
  // Of the jobs of the cluster when it was chosen what is committed, or when it was aborted.
  std::uint64_t epoch = 0;
  // The rest is of kCommit.
  std::array<std::uint8_t, 16> commit{};  // of the attempt to commit it; random
  std::string sequence;
  std::uint64_t number = 0;
  std::uint64_t messages = 0;
  std::uint64_t malformed = 0;
  std::int64_t committed_at = 0;      // µs since 1970, by the clock of the site that committed it
  std::vector<std::uint32_t> shards;  // that have messages of the job, sorted
  bool operator==(const ClusterJob&) const = default;
};

// The state of a cluster. It changes by commands only, in the order of a log, so that it is the
// same at all sites that have come to the same entry. A value.
struct ClusterState {
  std::uint64_t revision = 0;      // counts the commands that had an effect
  ClusterId id{};                  // random; all zeros until the cluster is founded
  std::vector<ClusterSite> sites;  // by name
  // The greatest id that a replica ever had. So whoever has an id up to this one, and is not among
  // the sites, has left, and no id is used twice.
  std::uint64_t last_replica = 0;
  std::string descriptor;  // of the database, as in its file TOPICDB
  std::string retention;   // its classes, as in its file `retention`
  // The format in force: nobody writes what came with a later one.
  std::uint32_t format = kClusterFormatFirst;
  // Counts what may have removed something that was staged: jobs that are aborted, and those that
  // are over.
  std::uint64_t jobs_epoch = 0;
  std::vector<ClusterJob> jobs;  // those under way, in the order in which they were committed
  bool operator==(const ClusterState&) const = default;

  bool is_founded() const { return revision > 0; }
  // These return the site of a replica, and that of a name, or null.
  const ClusterSite* FindReplica(std::uint64_t replica) const;
  const ClusterSite* FindSite(std::string_view name) const;
  // Returns what is under way of a job, or null.
  const ClusterJob* FindJob(std::string_view name) const;
  // Returns whether a replica was a member, and is none any more.
  bool HasLeft(std::uint64_t replica) const;
  // Returns the names of the sites, for messages.
  std::string Names() const;
  // Returns kCluster for a name that no site has.
  Status NoSuchSite(const std::string& name) const;
};

// The most sites that a cluster may have, since each has a replica of every shard.
inline constexpr std::size_t kSitesMax = 7;
// The most jobs that may be under way, since the state is small.
inline constexpr std::size_t kJobsMax = 1'000;

enum class ClusterCommandKind : std::uint8_t {
  kFound = 1,         // makes the cluster, if it is not there yet
  kSetClients = 2,    // says where clients find a site
  kSetRetention = 3,  // replaces the retention classes, unless they have changed meanwhile
  kAddSite = 4,       // adds a site, which gets a new id for its replicas, and is joining
  kSetPeers = 5,      // says where other sites find a site
  kSetState = 6,      // a site that joins has all shards now, or a site is to leave
  kRemoveSite = 7,    // a site that leaves is in the groups of the shards no more
  kUpgrade = 8,       // a later format is in force, with which all sites can work
  kAddJob = 9,        // commits a job, or aborts it
  kForgetJob = 10,    // all shards have applied a job, and nothing is staged of it any more
};

// A change of the state of a cluster.
struct ClusterCommand {
  ClusterCommandKind kind = ClusterCommandKind::kFound;
  ClusterState founded;                  // of kFound: without a revision
  std::string site;                      // of the others: its name
  std::string clients;                   // of kSetClients
  std::string peers;                     // of kAddSite and kSetPeers
  SiteState state = SiteState::kMember;  // of kSetState
  std::array<std::uint8_t, 16> id{};     // of kAddSite: of the site
  std::uint64_t replica = 0;             // of kSetState and kRemoveSite: of the site
  std::string retention;                 // of kSetRetention: as in ClusterState
  // Of kSetRetention: what RetentionHash was before. Of kUpgrade: the last replica of the sites
  // that can work with the format.
  std::uint64_t based_on = 0;
  // Of kAddSite: the newest format with which the site can work, or an earlier one. Of kUpgrade:
  // the one that is to be in force.
  std::uint32_t format = kClusterFormatFirst;
  ClusterJob job;  // of kAddJob; of kForgetJob: as it is in the state
  bool operator==(const ClusterCommand&) const = default;
};

// Returns a number by which a command names the retention classes of a state. The numbers of
// different classes differ.
std::uint64_t RetentionHash(const ClusterState& state);

// Returns the format with which a command came: earlier versions of TopicDB cannot read it.
std::uint32_t FormatOf(const ClusterCommand& command);

// Changes the state as a command says. Returns kConflict or kCluster if the command has no effect,
// and what to do: kCluster for a change of the sites that cannot be.
Status Apply(const ClusterCommand& command, ClusterState* state);

// Returns whether a command had no effect.
inline bool IsRefusal(const Status& applied) {
  return applied.code() == Code::kConflict || applied.code() == Code::kCluster;
}

std::string Encode(const ClusterCommand& command);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a command of a later
// version of TopicDB.
Result<ClusterCommand> DecodeClusterCommand(std::string_view bytes);

// The state of a cluster after an entry of the log: what a site has in a file, and what it hands to
// a site that lacks older entries.
struct ClusterSnapshot {
  std::uint64_t index = 0;  // of the entry
  ClusterState state;
  bool operator==(const ClusterSnapshot&) const = default;
};

std::string Encode(const ClusterSnapshot& snapshot);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a later version.
Result<ClusterSnapshot> DecodeClusterSnapshot(std::string_view bytes);

}  // namespace topicdb::replication
