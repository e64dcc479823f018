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
#include "replication/cluster/cluster_administration.h"
#include "replication/cluster/cluster_rules.h"
#include "replication/cluster/conversion.h"
#include "replication/cluster/lost_majority.h"
#include "replication/cluster/member_keeper.h"
#include "replication/cluster/site_call.h"
#include "replication/cluster/site_identity.h"
#include "replication/cluster/site_service.h"
#include "replication/deadline.h"
#include "replication/jobs/cluster_jobs.h"
#include "replication/raft/format.h"
#include "replication/raft/raft_site.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_file.h"
#include "replication/state/cluster_group.h"
#include "replication/state/cluster_state.h"
#include "store/catalog/descriptor.h"
#include "store/catalog/found_database.h"
#include "store/catalog/retention_file.h"
#include "store/database/create.h"

namespace topicdb {

using replication::CheckFormat;
using replication::ClusterAdministration;
using replication::ClusterCommand;
using replication::ClusterCommandKind;
using replication::ClusterGroup;
using replication::ClusterGroupOptions;
using replication::ClusterJobs;
using replication::ClusterRules;
using replication::ClusterState;
using replication::IsRefusal;
using replication::LeftUntil;
using replication::MemberKeeper;
using replication::MemberKeeperOptions;
using replication::RaftPosition;
using replication::RaftSite;
using replication::RaftSiteOptions;
using replication::ReplicaOptions;
using replication::SiteAnswer;
using replication::SiteCall;
using replication::SiteCallKind;
using replication::SiteIdentity;
using replication::SiteService;
using replication::SiteShards;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kNameBytesMax = 64;
constexpr milliseconds kElectionTimeoutMin(100);  // two ticks of the consensus
// How many election timeouts a site waits for leaders to make the shards of a new database.
constexpr int kMadeElections = 4;
// After how many election timeouts without a leader a site asks whether it is a member still.
constexpr int kSilentElections = 4;
constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
// How long a site waits for one answer while the cluster is founded.
constexpr milliseconds kFoundPatience(2'000);
constexpr milliseconds kFoundAgainAfter(50);

Status CheckName(const std::string& name) {
  const bool is_name = !name.empty() && name.size() <= kNameBytesMax &&
                       name.find_first_not_of(kNameCharacters) == std::string::npos;
  if (is_name) return Status::Ok();
  return InvalidArgument("site '" + name + "': a name has 1 to " + std::to_string(kNameBytesMax) +
                         " letters, digits, '.', '_' and '-'");
}

Status CheckOptions(const SiteOptions& options) {
  if (options.election_timeout < kElectionTimeoutMin) {
    return InvalidArgument("election_timeout: at least " +
                           std::to_string(kElectionTimeoutMin.count()) + " ms are needed");
  }
  if (options.converts && options.sites.size() != 1) {
    return InvalidArgument(
        "a local database becomes that of a cluster with one site, which others join then");
  }
  if (!options.join.empty()) {
    TOPICDB_RETURN_IF_ERROR(CheckName(options.name));
    if (!options.sites.empty()) {
      return InvalidArgument("a site either founds a cluster, with all its sites, or joins one");
    }
    if (!options.address.empty() && !options.address.ends_with(":0")) return Status::Ok();
    return InvalidArgument(
        "a site that joins needs an address where the others find it: a host and a port");
  }
  for (const auto& [name, address] : options.sites) TOPICDB_RETURN_IF_ERROR(CheckName(name));
  if (!options.sites.contains(options.name)) {
    return InvalidArgument("site '" + options.name + "' is not among the sites of the cluster");
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

// The replicas of a site as its database owns them, and what the sites agree on of the database.
// The site has the replicas, too, for what it tells of them.
class SharedShards : public ShardSource {
 public:
  SharedShards(std::shared_ptr<SiteShards> shards, std::unique_ptr<ClusterRules> rules,
               std::unique_ptr<ClusterJobs> jobs)
      : shards_(std::move(shards)), rules_(std::move(rules)), jobs_(std::move(jobs)) {}

  Result<std::shared_ptr<Shard>> Open(std::uint32_t index) override { return shards_->Open(index); }
  void Watch(std::function<void(std::shared_ptr<Shard>)> replace) override {
    shards_->Watch(std::move(replace));
  }
  Status SetRules(const RetentionRules& rules,
                  const std::vector<std::shared_ptr<Shard>>& shards) override {
    TOPICDB_RETURN_IF_ERROR(rules_->Propose(rules));
    return shards_->SetRules(rules, shards);
  }
  Status Close(const std::vector<std::shared_ptr<Shard>>& shards) override {
    jobs_->Stop();
    rules_->Stop();
    return shards_->Close(shards);
  }
  bool is_replicated() const override { return true; }
  Status AwaitAcknowledged(std::chrono::milliseconds patience) override {
    return shards_->AwaitAcknowledged(patience);
  }
  ReplicatedJobs* jobs() override { return jobs_.get(); }

 private:
  const std::shared_ptr<SiteShards> shards_;
  const std::unique_ptr<ClusterRules> rules_;
  const std::unique_ptr<ClusterJobs> jobs_;
};

// Returns options that have the files with which this site shows who it is.
RaftSiteOptions CredentialsOf(const SiteOptions& options) {
  RaftSiteOptions raft;
  raft.authority = options.authority;
  raft.certificate = options.certificate;
  raft.key = options.key;
  return raft;
}

Status MakePlace(const std::string& path) {
  if (replication::IsBeingConverted(path) && !Exists(path + "/site/identity")) {
    return InvalidArgument(path +
                           " is being converted, which was interrupted: convert it once more");
  }
  if (Exists(DescriptorPath(path)) && !Exists(path + "/site/identity")) {
    return InvalidArgument(path +
                           " is a local database: begin in a new directory, or convert this one");
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
  TOPICDB_RETURN_IF_ERROR(options.converts ? replication::ConvertDatabase(options.path)
                                           : MakePlace(options.path));
  std::unique_ptr<Site> site(new Site(std::move(options)));
  const SiteOptions& given = site->options_;
  const std::string place = given.path + "/site";
  RaftSiteOptions raft = CredentialsOf(given);
  TOPICDB_ASSIGN_OR_RETURN(SiteIdentity identity, Identify(given, raft));
  site->identity_ = std::make_unique<SiteIdentity>(std::move(identity));
  TOPICDB_RETURN_IF_ERROR(replication::FinishConversion(given.path));
  raft.directory = place + "/log";
  raft.id = site->identity_->id;
  raft.replica = site->identity_->replica;
  raft.listen = given.listen;
  if (raft.listen.empty()) {
    raft.listen = given.join.empty() ? given.sites.at(given.name) : given.address;
  }
  raft.election_timeout = given.election_timeout;
  TOPICDB_ASSIGN_OR_RETURN(site->raft_, RaftSite::Open(raft));
  ClusterGroupOptions group;
  group.group = site->identity_->group;
  group.voters = site->Founders();
  group.path = place + "/cluster";
  group.newest_format = given.newest_format;
  TOPICDB_ASSIGN_OR_RETURN(site->group_, ClusterGroup::Open(site->raft_.get(), std::move(group)));
  site->service_ = std::make_unique<SiteService>(site->raft_.get(), site->group_.get(),
                                                 site->identity_->group, given.newest_format);
  MemberKeeperOptions keeps{given.name, site->identity_->group, site->OwnAddress(),
                            kSilentElections * given.election_timeout};
  site->administration_ =
      std::make_unique<ClusterAdministration>(site->group_.get(), site->service_.get(), given.path);
  site->keeper_ = std::make_unique<MemberKeeper>(site->raft_.get(), site->group_.get(), keeps);
  for (const auto& [name, address] : given.sites) {
    if (name == given.name || address.empty()) continue;
    TOPICDB_RETURN_IF_ERROR(site->SetAddress(name, address));
  }
  if (site->identity_->has_joined) TOPICDB_RETURN_IF_ERROR(site->ComeBack(raft));
  site->keeper_->Start();
  return site;
}

std::vector<std::uint64_t> Site::Founders() const {
  std::vector<std::uint64_t> founders;
  if (identity_->has_joined) return founders;
  for (std::uint64_t replica = 1; replica <= options_.sites.size(); ++replica) {
    founders.push_back(replica);
  }
  return founders;
}

bool Site::Forked() const { return fork_guard_->Forked(); }

std::uint64_t Site::replica() const { return identity_->replica; }

std::uint16_t Site::port() const { return raft_->port(); }

ClusterState Site::state() const { return group_->state(); }

std::array<std::uint8_t, 16> Site::cluster_id() const { return group_->state().id; }

std::vector<ClusterSite> Site::Sites() const { return group_->state().sites; }

std::uint32_t Site::format() const { return group_->format(); }

Status Site::SetAddress(const std::string& name, const std::string& address) {
  std::uint64_t replica = 0;
  if (const auto found = options_.sites.find(name); found != options_.sites.end()) {
    const auto rank = std::distance(options_.sites.begin(), found);
    replica = static_cast<std::uint64_t>(rank) + 1;
  } else if (const ClusterState state = group_->state(); state.FindSite(name) != nullptr) {
    replica = state.FindSite(name)->replica;
  } else {
    return InvalidArgument("the cluster has no site '" + name + "'");
  }
  return keeper_->SetAddress(replica, address).WithContext("the address of site '" + name + "'");
}

Result<SiteIdentity> Site::Identify(const SiteOptions& options, const RaftSiteOptions& raft) {
  const std::string path = options.path + "/site/identity";
  if (options.join.empty()) {
    return replication::LoadSiteIdentity(path, options.name, options.sites);
  }
  TOPICDB_ASSIGN_OR_RETURN(SiteIdentity identity,
                           replication::LoadJoiningIdentity(path, options.name));
  if (identity.replica != 0) return identity;
  SiteCall call;
  call.kind = SiteCallKind::kJoin;
  call.name = options.name;
  call.id = identity.id;
  call.peers = options.address;
  call.format = options.newest_format;
  TOPICDB_ASSIGN_OR_RETURN(
      const SiteAnswer answer,
      replication::AskCluster(options.join, raft, call, options.join_patience));
  TOPICDB_RETURN_IF_ERROR(CheckFormat(answer.state.format, options.newest_format));
  const ClusterSite* const own = answer.state.FindSite(options.name);
  if (own == nullptr || own->id != identity.id) {
    return ClusterFault("site '" + options.name + "' has left the cluster while it joined");
  }
  identity.replica = own->replica;
  identity.group = answer.group;
  // The site needs to know where the others are until the state of the cluster has come.
  const replication::ClusterSnapshot known{0, answer.state};
  TOPICDB_RETURN_IF_ERROR(replication::StoreClusterSnapshot(options.path + "/site/cluster", known));
  TOPICDB_RETURN_IF_ERROR(replication::StoreSiteIdentity(path, identity));
  return identity;
}

Status Site::ComeBack(const RaftSiteOptions& raft) {
  const ClusterState known = group_->state();
  const SiteCall call = replication::StandingCall(known.id, identity_->replica, options_.address);
  keeper_->LearnAddresses(known);
  const auto answer = replication::AskCluster(options_.join, raft, call, milliseconds(0));
  if (answer.ok()) {
    TOPICDB_RETURN_IF_ERROR(CheckFormat(answer->state.format, options_.newest_format));
    keeper_->LearnAddresses(answer->state);
  }
  // Without an answer the others may be where they were.
  const Code code = answer.status().code();
  return code == Code::kCluster || code == Code::kSchema ? answer.status() : Status::Ok();
}

std::string Site::OwnAddress() const {
  const std::string given =
      options_.join.empty() ? options_.sites.at(options_.name) : options_.address;
  const std::string& base = given.empty() ? options_.listen : given;
  const std::size_t colon = base.rfind(':');
  if (colon == std::string::npos) return "";
  const std::string host = base.substr(0, colon);
  if (host == "0.0.0.0" || host == "[::]") return "";  // others cannot go there
  if (base.substr(colon + 1) != "0") return base;
  return host + ":" + std::to_string(port());
}

Result<FoundDatabase> Site::MakeDatabase(const SchemaRequest& schema) const {
  if (Exists(DescriptorPath(options_.path))) return FindDatabase(options_.path);  // was converted
  TOPICDB_ASSIGN_OR_RETURN(Descriptor descriptor, MakeDescriptor(schema));
  TOPICDB_ASSIGN_OR_RETURN(RetentionRules rules, RetentionRules::Make(descriptor.schema.retention));
  return FoundDatabase{std::move(descriptor), std::move(rules)};
}

Status Site::Found(const SchemaRequest& schema, Clock::time_point deadline) {
  if (identity_->has_joined) return group_->AwaitFounded(deadline);
  if (group_->state().is_founded()) return Status::Ok();
  ClusterCommand command;
  command.kind = ClusterCommandKind::kFound;
  ClusterState& founded = command.founded;
  founded.id = RandomBytes<16>();
  founded.format = options_.newest_format;
  for (const auto& [name, address] : options_.sites) {
    founded.sites.push_back({name, ++founded.last_replica, address, {}, {}, {}});
  }
  TOPICDB_ASSIGN_OR_RETURN(const FoundDatabase database, MakeDatabase(schema));
  founded.descriptor = EncodeDescriptor(database.descriptor);
  founded.retention = EncodeRetention(database.rules);
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
  if (own == nullptr) return Status::Ok();
  ClusterCommand command;
  command.site = identity_->name;
  command.clients = options_.clients;
  command.peers = OwnAddress();
  std::vector<ClusterCommandKind> kinds;
  if (own->clients != command.clients) kinds.push_back(ClusterCommandKind::kSetClients);
  if (own->peers != command.peers && !command.peers.empty()) {
    kinds.push_back(ClusterCommandKind::kSetPeers);
  }
  for (const ClusterCommandKind kind : kinds) {
    command.kind = kind;
    const Status told = group_->Propose(command, LeftUntil(deadline));
    if (!told.ok() && !IsRefusal(told)) return told;
  }
  return Status::Ok();
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
  TOPICDB_RETURN_IF_ERROR(Standing());
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
  replicas.format = [this] { return format(); };
  replicas.group = identity_->group + 1;
  replicas.voters = Founders();
  replicas.heals = options_.heals && state.sites.size() > 1;
  TOPICDB_ASSIGN_OR_RETURN(
      auto database,
      Database::Open(options_.path, options,
                     [&](std::shared_ptr<const ShardEnvironment> environment) {
                       shards_ = std::make_shared<SiteShards>(raft_.get(), environment, replicas);
                       return std::make_unique<SharedShards>(
                           shards_,
                           std::make_unique<ClusterRules>(group_.get(), shards_, environment,
                                                          options_.commit_patience),
                           std::make_unique<ClusterJobs>(group_.get(), shards_, environment,
                                                         options_.commit_patience));
                     }));
  service_->SetShards(shards_);
  keeper_->SetShards(shards_);
  // A new database has no slabs before a site leads, and can be used without them, too. Others may
  // open it only when this call has returned.
  const auto made_by =
      std::min(deadline, Clock::now() + kMadeElections * options_.election_timeout);
  if (!identity_->has_joined) {
    AwaitMade(LeftUntil(made_by)).IgnoreError();
  }
  return database;
}

Status Site::AwaitShards(milliseconds patience) const {
  if (shards_ == nullptr) return Closed("site '" + identity_->name + "' has no database open");
  const auto deadline = Clock::now() + patience;
  for (const auto& [index, replica] : shards_->All()) {
    TOPICDB_RETURN_IF_ERROR(replica->AwaitHealed(LeftUntil(deadline)));
  }
  if (!identity_->has_joined) return Status::Ok();
  return AwaitMade(LeftUntil(deadline));
}

Status Site::AwaitMade(milliseconds patience) const {
  const auto deadline = Clock::now() + patience;
  for (const auto& [index, replica] : shards_->All()) {
    TOPICDB_RETURN_IF_ERROR(Standing());
    if (replica->AwaitMade(LeftUntil(deadline))) continue;
    TOPICDB_RETURN_IF_ERROR(replica->failure());
    return Stale(replica->name() + " has not come from the other sites within " +
                 std::to_string(patience.count()) + " ms: wait for it");
  }
  return Status::Ok();
}

Status Site::Standing() const { return keeper_->standing(); }

Status Site::Leave(const std::string& name, milliseconds patience) {
  return administration_->Leave(name, patience);
}

Status Site::Forget(const std::string& name, milliseconds patience) {
  return administration_->Forget(name, patience);
}

Status Site::StepDown(const std::string& name) { return administration_->StepDown(name); }

Result<std::size_t> Site::Balance() { return administration_->Balance(shards_.get()); }

Result<std::uint32_t> Site::Upgrade(milliseconds patience) {
  return administration_->Upgrade(patience);
}

Result<std::vector<ReplicaVerification>> Site::Verify(milliseconds patience,
                                                      const InterruptCheck& interrupted) {
  return administration_->Verify(shards_.get(), patience, interrupted);
}

Status Site::Heal(const std::string& name, std::uint32_t shard) {
  return administration_->Heal(name, shard);
}

std::vector<ReplicaReport> Site::Replicas() const {
  std::vector<ReplicaReport> reports;
  if (shards_ == nullptr) return reports;
  for (const auto& [index, replica] : shards_->All()) {
    const auto status = shards_->StatusOf(index);
    if (!status.ok()) continue;
    const RaftPosition& position = status->position;
    const Status failure = replica->failure();
    reports.push_back({index, replica->state(), position.leader, position.term, status->committed,
                       status->applied, status->first, status->last,
                       failure.ok() ? replica->damage() : failure});
  }
  return reports;
}

Result<StoredSite> Site::Load(const std::string& path) { return replication::LoadStoredSite(path); }

Status Site::ForgetOthers(const SiteOptions& options) {
  return replication::ForgetOthers(options.path, CredentialsOf(options));
}

}  // namespace topicdb
