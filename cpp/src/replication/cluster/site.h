// A site: this process's part in a database that outlives its machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "replication/cluster/cluster_group.h"
#include "replication/cluster/cluster_state.h"
#include "replication/cluster/site_identity.h"
#include "replication/site/raft_site.h"
#include "replication/site/site_shards.h"
#include "topicdb/database.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb::replication {

struct SiteOptions {
  std::string path;  // of the database; the directory is made if it is not there
  std::string name;  // of this site: letters, digits, '.', '_' and '-'
  // All sites of the cluster by name, with the addresses where they find each other, host:port. The
  // names must be the same at all sites, and stay so; addresses may change.
  std::map<std::string, std::string> sites;
  std::string listen;   // empty: the address of this site
  std::string clients;  // where clients find this site, as a URL; empty while it serves none
  // Files in PEM. All three are empty or none; needed for addresses other than loopback.
  std::string authority;
  std::string certificate;
  std::string key;
  std::chrono::milliseconds election_timeout{500};
  ReplicaOptions replicas;  // without the group and the voters
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
  // Begins to take part. Does not wait for other sites. Returns kInvalidArgument for options that
  // cannot be, and if the directory is that of another site or of a local database; kCorruption if
  // the log has lost something; kLocked, kSchema and kStorage.
  static Result<std::unique_ptr<Site>> Start(SiteOptions options);
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  const SiteIdentity& identity() const { return identity_; }
  // Returns the port at which other sites find this one.
  std::uint16_t port() const { return raft_->port(); }
  // Says that another site has this address now. Returns kInvalidArgument for an unknown site or an
  // address without a port.
  Status SetAddress(const std::string& name, const std::string& address);
  // Returns what the sites agree on, as far as it has come here.
  ClusterState state() const { return group_->state(); }

  // Opens the database. The first sites that come together make it, with the schema of
  // options.schema. Waits for a majority of the sites for at most `patience`. Returns kNotLeader or
  // kUnknownOutcome if that is not there, kSchema if the database has another schema,
  // kInvalidArgument if the directory has another database, and what Database::Open returns. The
  // caller owns the database, and closes it before the site. A site opens its database once: later
  // calls return kClosed.
  Result<std::unique_ptr<Database>> OpenDatabase(const OpenOptions& options,
                                                 std::chrono::milliseconds patience);
  // Returns the replicas of the database, for their state, as long as that is open.
  const SiteShards* shards() const { return shards_; }

 private:
  explicit Site(SiteOptions options) : options_(std::move(options)) {}

  // Waits until the cluster is founded, and founds it if that is not done.
  Status Found(const SchemaRequest& schema, std::chrono::steady_clock::time_point deadline);
  // Tells all sites where clients find this one.
  Status Announce(std::chrono::steady_clock::time_point deadline);

  const SiteOptions options_;
  SiteIdentity identity_;
  std::unique_ptr<RaftSite> raft_;
  std::unique_ptr<ClusterGroup> group_;  // behind raft_, so that it goes first
  SiteShards* shards_ = nullptr;         // of the database that was opened
};

}  // namespace topicdb::replication
