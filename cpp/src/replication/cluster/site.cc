#include "topicdb/database/site.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes/random_bytes.h"
#include "base/file/files.h"
#include "base/thread/fork_guard.h"
#include "replication/cluster/cluster_group.h"
#include "replication/cluster/cluster_state.h"
#include "replication/cluster/site_identity.h"
#include "replication/site/raft_site.h"
#include "replication/site/site_shards.h"
#include "store/catalog/descriptor.h"
#include "store/catalog/found_database.h"
#include "store/catalog/retention_file.h"
#include "store/database/create.h"

namespace topicdb {

using replication::ClusterCommand;
using replication::ClusterCommandKind;
using replication::ClusterGroup;
using replication::ClusterGroupOptions;
using replication::ClusterState;
using replication::RaftPosition;
using replication::RaftSite;
using replication::RaftSiteOptions;
using replication::ReplicaOptions;
using replication::SiteIdentity;
using replication::SiteShards;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kNameBytesMax = 64;
constexpr milliseconds kElectionTimeoutMin(100);  // two ticks of the consensus
// How many election timeouts a site waits for leaders to make the shards of a new database.
constexpr int kMadeElections = 4;
constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
// How long a site waits for one answer while the cluster is founded.
constexpr milliseconds kFoundPatience(2'000);
constexpr milliseconds kFoundAgainAfter(50);

milliseconds LeftUntil(Clock::time_point deadline, milliseconds most) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return std::clamp(left, milliseconds(1), most);
}

Status CheckName(const std::string& name) {
  const bool is_name = !name.empty() && name.size() <= kNameBytesMax &&
                       name.find_first_not_of(kNameCharacters) == std::string::npos;
  if (is_name) return Status::Ok();
  return InvalidArgument("site '" + name + "': a name has 1 to " + std::to_string(kNameBytesMax) +
                         " letters, digits, '.', '_' and '-'");
}

Status CheckOptions(const SiteOptions& options) {
  for (const auto& [name, address] : options.sites) TOPICDB_RETURN_IF_ERROR(CheckName(name));
  if (!options.sites.contains(options.name)) {
    return InvalidArgument("site '" + options.name + "' is not among the sites of the cluster");
  }
  if (options.election_timeout < kElectionTimeoutMin) {
    return InvalidArgument("election_timeout: at least " +
                           std::to_string(kElectionTimeoutMin.count()) + " ms are needed");
  }
  std::map<std::string, std::string> names;  // by address
  for (const auto& [name, address] : options.sites) {
    const auto [known, is_new] = names.emplace(address, name);
    if (is_new || address.empty()) continue;
    return InvalidArgument("sites '" + known->second + "' and '" + name + "' have the address " +
                           address + ": each needs its own");
  }
  return Status::Ok();
}

// The replicas of a site as its database owns them. The site has them, too, for what it tells of
// them.
class SharedShards : public ShardSource {
 public:
  explicit SharedShards(std::shared_ptr<SiteShards> shards) : shards_(std::move(shards)) {}

  Result<std::shared_ptr<Shard>> Open(std::uint32_t index) override { return shards_->Open(index); }
  void Watch(std::function<void(std::shared_ptr<Shard>)> replace) override {
    shards_->Watch(std::move(replace));
  }
  Status Close(const std::vector<std::shared_ptr<Shard>>& shards) override {
    return shards_->Close(shards);
  }
  bool is_replicated() const override { return true; }

 private:
  const std::shared_ptr<SiteShards> shards_;
};

Status MakePlace(const std::string& path) {
  if (Exists(DescriptorPath(path)) && !Exists(path + "/site/identity")) {
    return InvalidArgument(path + " is a local database: a site begins in a new directory");
  }
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(path));
  return MakeDirectory(path + "/site");
}

}  // namespace

Site::Site(SiteOptions options)
    : options_(std::move(options)), fork_guard_(std::make_unique<const ForkGuard>()) {}
Site::~Site() = default;

Result<std::unique_ptr<Site>> Site::Start(SiteOptions options) {
  TOPICDB_RETURN_IF_ERROR(CheckOptions(options));
  TOPICDB_RETURN_IF_ERROR(MakePlace(options.path));
  std::unique_ptr<Site> site(new Site(std::move(options)));
  const SiteOptions& given = site->options_;
  const std::string place = given.path + "/site";
  TOPICDB_ASSIGN_OR_RETURN(
      SiteIdentity identity,
      replication::LoadSiteIdentity(place + "/identity", given.name, given.sites));
  site->identity_ = std::make_unique<SiteIdentity>(std::move(identity));
  RaftSiteOptions raft;
  raft.directory = place + "/log";
  raft.id = site->identity_->id;
  raft.replica = site->identity_->replica;
  raft.listen = given.listen.empty() ? given.sites.at(given.name) : given.listen;
  raft.election_timeout = given.election_timeout;
  raft.authority = given.authority;
  raft.certificate = given.certificate;
  raft.key = given.key;
  TOPICDB_ASSIGN_OR_RETURN(site->raft_, RaftSite::Open(raft));
  for (const auto& [name, address] : given.sites) {
    if (name == given.name || address.empty()) continue;
    TOPICDB_RETURN_IF_ERROR(site->SetAddress(name, address));
  }
  ClusterGroupOptions group;
  group.group = site->identity_->group;
  for (std::uint64_t voter = 1; voter <= given.sites.size(); ++voter) group.voters.push_back(voter);
  group.path = place + "/cluster";
  TOPICDB_ASSIGN_OR_RETURN(site->group_, ClusterGroup::Open(site->raft_.get(), std::move(group)));
  return site;
}

bool Site::Forked() const { return fork_guard_->Forked(); }

std::uint64_t Site::replica() const { return identity_->replica; }

std::uint16_t Site::port() const { return raft_->port(); }

ClusterState Site::state() const { return group_->state(); }

std::array<std::uint8_t, 16> Site::cluster_id() const { return group_->state().id; }

std::vector<ClusterSite> Site::Sites() const { return group_->state().sites; }

Status Site::SetAddress(const std::string& name, const std::string& address) {
  const auto found = options_.sites.find(name);
  if (found == options_.sites.end()) {
    return InvalidArgument("the cluster has no site '" + name + "'");
  }
  const auto rank = std::distance(options_.sites.begin(), found);
  return raft_->SetPeer(static_cast<std::uint64_t>(rank) + 1, address)
      .WithContext("the address of site '" + name + "'");
}

Status Site::Found(const SchemaRequest& schema, Clock::time_point deadline) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kFound;
  ClusterState& founded = command.founded;
  founded.id = RandomBytes<16>();
  for (const auto& [name, address] : options_.sites) {
    founded.sites.push_back({name, founded.sites.size() + 1, address, {}});
  }
  TOPICDB_ASSIGN_OR_RETURN(const Descriptor descriptor, MakeDescriptor(schema));
  TOPICDB_ASSIGN_OR_RETURN(const RetentionRules rules,
                           RetentionRules::Make(descriptor.schema.retention));
  founded.descriptor = EncodeDescriptor(descriptor);
  founded.retention = EncodeRetention(rules);
  while (!group_->state().is_founded()) {
    const Status proposed = group_->Propose(command, LeftUntil(deadline, kFoundPatience));
    if (proposed.ok() || proposed.code() == Code::kConflict) continue;  // another one has
    const bool may_come =
        proposed.code() == Code::kNotLeader || proposed.code() == Code::kUnknownOutcome;
    if (!may_come || Clock::now() >= deadline) return proposed;
    std::this_thread::sleep_for(kFoundAgainAfter);
  }
  return Status::Ok();
}

Status Site::Announce(Clock::time_point deadline) {
  const ClusterState state = group_->state();
  const ClusterSite* const own = state.FindReplica(identity_->replica);
  if (own == nullptr || own->clients == options_.clients) return Status::Ok();
  ClusterCommand command;
  command.kind = ClusterCommandKind::kSetClients;
  command.site = identity_->name;
  command.clients = options_.clients;
  const Status told = group_->Propose(command, LeftUntil(deadline, milliseconds::max()));
  return told.code() == Code::kConflict ? Status::Ok() : told;
}

Result<std::unique_ptr<Database>> Site::OpenDatabase(const OpenOptions& options,
                                                     milliseconds patience) {
  if (options.read_only || options.only_shards.has_value()) {
    return InvalidArgument(
        "a site opens all shards of its database, and writes those that it leads");
  }
  if (shards_ != nullptr) {  // the log hands out each entry once
    return Closed("site '" + identity_->name +
                  "' has opened its database before: start the site anew");
  }
  const auto deadline = Clock::now() + patience;
  TOPICDB_RETURN_IF_ERROR(Found(options.schema, deadline));
  TOPICDB_RETURN_IF_ERROR(Announce(deadline));
  const ClusterState state = group_->state();
  const std::string source = options_.path + "/site/cluster";
  TOPICDB_ASSIGN_OR_RETURN(Descriptor descriptor, DecodeDescriptor(state.descriptor, source));
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, DecodeRetention(state.retention, source));
  TOPICDB_RETURN_IF_ERROR(
      MakeWithoutShards(options_.path, {std::move(descriptor), std::move(rules)}));
  ReplicaOptions replicas;
  replicas.commit_patience = options_.commit_patience;
  replicas.flush_bytes = options_.flush_bytes;
  replicas.group = identity_->group + 1;
  for (const ClusterSite& site : state.sites) replicas.voters.push_back(site.replica);
  TOPICDB_ASSIGN_OR_RETURN(auto database,
                           Database::Open(options_.path, options,
                                          [&](std::shared_ptr<const ShardEnvironment> environment) {
                                            shards_ = std::make_shared<SiteShards>(
                                                raft_.get(), std::move(environment), replicas);
                                            return std::make_unique<SharedShards>(shards_);
                                          }));
  // A new database has no slabs before a site leads, and can be used without them, too. Others may
  // open it only when this call has returned.
  const auto made_by =
      std::min(deadline, Clock::now() + kMadeElections * options_.election_timeout);
  for (const auto& [index, replica] : shards_->All()) {
    if (!replica->AwaitMade(LeftUntil(made_by, milliseconds::max()))) break;
  }
  return database;
}

std::vector<ReplicaReport> Site::Replicas() const {
  std::vector<ReplicaReport> reports;
  if (shards_ == nullptr) return reports;
  for (const auto& [index, replica] : shards_->All()) {
    const auto status = shards_->StatusOf(index);
    if (!status.ok()) continue;
    const RaftPosition& position = status->position;
    reports.push_back({index, replica->state(), position.leader, position.term, status->committed,
                       status->applied, status->first, status->last, replica->failure()});
  }
  return reports;
}

}  // namespace topicdb
