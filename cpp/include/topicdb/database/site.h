// A site: this process's part in a database that outlives its machine.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "topicdb/database.h"
#include "topicdb/interrupt.h"
#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/types/replicas.h"

namespace topicdb {

class ForkGuard;
struct FoundDatabase;
namespace replication {
class ClusterAdministration;
class ClusterGroup;
class MemberKeeper;
class RaftSite;
class SiteService;
class SiteShards;
struct ClusterState;
struct RaftSiteOptions;
struct SiteIdentity;
}  // namespace replication

struct SiteOptions {
  std::string path;  // of the database; the directory is made if it is not there
  std::string name;  // of this site: letters, digits, '.', '_' and '-'
  // The sites that found the cluster by name, with the addresses where they find each other,
  // host:port. The names must be the same at all of them, and stay so; addresses may change.
  std::map<std::string, std::string> sites;
  // Whether `path` is a local database, which becomes that of the cluster. The site founds it
  // alone, and others join it. Without effect at later starts.
  bool converts = false;
  // Of a site that joins a cluster instead: addresses of sites that are in it, any one of which is
  // enough, and the address where they find this one. It may be another one at each start.
  std::vector<std::string> join;
  std::string address;
  std::string listen;   // empty: the address of this site
  std::string clients;  // where clients find this site, as a URL; empty while it serves none
  // Files in PEM. All three are empty or none; needed for addresses other than loopback.
  std::string authority;
  std::string certificate;
  std::string key;
  std::chrono::milliseconds election_timeout{500};
  // How long a write waits for a leader, and for a majority. Then its outcome is unknown.
  std::chrono::milliseconds commit_patience{10'000};
  // After this many bytes of entries a shard moves what it has in memory to files, and the log may
  // be cut.
  std::uint64_t flush_bytes = std::uint64_t{64} << 20;
  // Whether a shard whose data is damaged is filled anew from another site.
  bool heals = true;
  // How long a site that joins waits until the cluster has added it.
  std::chrono::milliseconds join_patience{10'000};
  // For tests, in which a site stands for an earlier version of TopicDB: the newest format of a
  // cluster with which it can work.
  std::uint32_t newest_format = kClusterFormatNewest;
};

// What the directory of a site says that is not running.
struct StoredSite {
  std::string name;                // of the site
  std::vector<ClusterSite> sites;  // of its cluster, this one among them, by name
};

// Takes part in the cluster of a database, and opens the database here. Each site has a replica of
// each shard. The program that runs a site owns it, and it outlives the database that it has
// opened. Thread-safe, but for OpenDatabase.
//
// It keeps in the directory of the database:
//
//   site/identity    who it is
//   site/cluster     what the sites agree on
//   site/log/        the log of all groups
class Site {
 public:
  // Begins to take part. A site that joins waits until the cluster has added it, for at most
  // options.join_patience; others do not wait. Returns kInvalidArgument for options that cannot be,
  // and if the directory is that of another site or of a local database; kCorruption if the log has
  // lost something; kNotLeader if no site of the cluster lets this one join in time, and kCluster
  // if it must not; kSchema if a later version of TopicDB has written the directory, or the cluster
  // writes a format with which this site cannot work; kLocked and kStorage.
  static Result<std::unique_ptr<Site>> Start(SiteOptions options);
  // Reads what the directory of a site says that is not running. Returns kNotFound if there is no
  // site, and kCluster if it knows of no cluster or has left it.
  static Result<StoredSite> Load(const std::string& path);
  // Has the site of a directory go on as the only one of its cluster, when a majority is lost for
  // good. Call it at one site alone: others join it with empty directories. What the others have
  // acknowledged, and this one has not got, is lost. Only the path and the files of `options` are
  // used, with which the sites are asked whether they are up. Returns kCluster if one is, and what
  // Load and Start return; then nothing was changed. A call that was interrupted is repeated.
  static Status ForgetOthers(const SiteOptions& options);
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  // Returns whether this is a forked child, which must neither use nor destroy the site: it has
  // none of its threads.
  bool Forked() const;
  // Returns the id of this site in the groups of the consensus.
  std::uint64_t replica() const;
  // Returns the port at which other sites find this one.
  std::uint16_t port() const;
  // Says that another site has this address now. A site that is up says so itself, as soon as it
  // reaches a majority. Returns kInvalidArgument for an unknown site or an address without a port.
  Status SetAddress(const std::string& name, const std::string& address);

  // Opens the database. The first sites that come together make it, with the schema of
  // options.schema. Waits for a majority of the sites for at most `patience`. Returns kNotLeader or
  // kUnknownOutcome if that is not there, kSchema if the database has another schema,
  // kInvalidArgument if the directory has another database, and what Database::Open returns. The
  // caller owns the database, and closes it before the site. A site opens its database once: later
  // calls return kClosed. It also waits for some election timeouts until the shards of a new
  // database are made. A site that has joined calls AwaitShards next.
  Result<std::unique_ptr<Database>> OpenDatabase(const OpenOptions& options,
                                                 std::chrono::milliseconds patience);

  // Waits until this site has all shards of the database that it has opened. The database must not
  // be read before: a shard that has not come yet looks empty, which is so at a site that has
  // joined, and where a shard is damaged and comes anew from another site. Returns kStale if they
  // do not come within `patience`. May be repeated.
  Status AwaitShards(std::chrono::milliseconds patience) const;

  // These return what the sites agree on, as far as it has come here: the random id of the cluster,
  // which is all zeros until a majority has met, and the sites, by name.
  std::array<std::uint8_t, 16> cluster_id() const;
  std::vector<ClusterSite> Sites() const;
  // These return the format that is in force: no site writes what came with a later one; and the
  // newest one with which this site can work.
  std::uint32_t format() const;
  std::uint32_t newest_format() const { return options_.newest_format; }
  // Returns Ok while this site is a member of the cluster, and otherwise kCluster and why: it has
  // left, or was forgotten. Returns kSchema if the cluster writes a format with which this site
  // cannot work. Its replicas then take part no more.
  Status Standing() const;

  // These change the cluster, at whatever site they are called. They return kCluster if that cannot
  // be, when nothing was done, kNotLeader if no majority is up within `patience`, and
  // kUnknownOutcome if it may still happen, as Sites shows.
  //
  // Has a site leave: the others go on without it. Waits until it is in no group any more. It may
  // be this one.
  Status Leave(const std::string& name, std::chrono::milliseconds patience);
  // The same for a site that is gone for good. Refuses one that answers.
  Status Forget(const std::string& name, std::chrono::milliseconds patience);
  // Has a site hand over whatever it leads to others, and stay. It may lead again later.
  Status StepDown(const std::string& name);
  // Has sites hand over shards until each leads about as many, and returns how many were handed
  // over.
  Result<std::size_t> Balance();
  // Puts the newest format in force with which all sites can work, and returns it: for good, since
  // what came with it is written then. Returns kCluster, and which sites are in the way, if some
  // site can work with later ones than that in force and others cannot, or if a site does not
  // answer.
  Result<std::uint32_t> Upgrade(std::chrono::milliseconds patience);

  // Has all sites read their replicas of each shard, as they are after the same entry of its log,
  // and compares them. That takes as long as reading all of them, one shard after the other.
  // Returns what it has found, by shard and site; what was not compared within `patience` is among
  // it. Returns kInterrupted, and kCluster before the database is opened.
  Result<std::vector<ReplicaVerification>> Verify(std::chrono::milliseconds patience,
                                                  const InterruptCheck& interrupted = nullptr);

  // Has a site fill its replica of a shard anew from another site, and does not wait until that is
  // done, which Replicas of that site tells. What it had is kept in its directory `quarantine`.
  // Returns kCluster if no other site has a replica, and kNotLeader if the site does not answer.
  Status Heal(const std::string& name, std::uint32_t shard);

  // Returns what is known of the replicas of the database, by shard. Once that is closed, and
  // before it is opened, there are none.
  std::vector<ReplicaReport> Replicas() const;

  // These are for tests. There are no shards before the database is opened.
  const replication::SiteIdentity& identity() const { return *identity_; }
  replication::ClusterState state() const;
  const replication::SiteShards* shards() const { return shards_.get(); }

 private:
  explicit Site(SiteOptions options);

  // Returns who this site is. Asks the cluster, if it is to join and does not know yet.
  static Result<replication::SiteIdentity> Identify(const SiteOptions& options,
                                                    const replication::RaftSiteOptions& raft);
  // Finds out where the sites of a cluster are by now that this one has joined before, and tells
  // them where it is. Returns kCluster if it is no member any more.
  Status ComeBack(const replication::RaftSiteOptions& raft);
  // Returns the first members of all groups, or none if this site has joined.
  std::vector<std::uint64_t> Founders() const;
  // Returns where other sites find this one, or "" if nobody said.
  std::string OwnAddress() const;
  // Returns the database with which this site founds a cluster: a new one, or one that was local.
  Result<FoundDatabase> MakeDatabase(const SchemaRequest& schema) const;
  // Waits until the cluster is founded, and founds it if that is not done.
  Status Found(const SchemaRequest& schema, std::chrono::steady_clock::time_point deadline);
  // Waits until all shards are made. Returns kStale if they are not within `patience`.
  Status AwaitMade(std::chrono::milliseconds patience) const;
  // Tells all sites where they and clients find this one.
  Status Announce(std::chrono::steady_clock::time_point deadline);

  const SiteOptions options_;
  const std::unique_ptr<const ForkGuard> fork_guard_;
  std::unique_ptr<replication::SiteIdentity> identity_;
  std::unique_ptr<replication::RaftSite> raft_;
  std::unique_ptr<replication::ClusterGroup> group_;  // behind raft_, so that it goes first
  std::shared_ptr<replication::SiteShards> shards_;   // of the database that was opened
  std::unique_ptr<replication::SiteService> service_;
  std::unique_ptr<replication::ClusterAdministration> administration_;
  std::unique_ptr<replication::MemberKeeper> keeper_;
};

}  // namespace topicdb
