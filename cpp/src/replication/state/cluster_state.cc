#include "replication/state/cluster_state.h"

#include <algorithm>
#include <utility>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"
#include "replication/hashed_bytes.h"

namespace topicdb::replication {

namespace {

// Version 1 has no states and ids of sites, and no last replica. Version 2 has no formats and no
// jobs; it is written as long as the first format is in force.
constexpr std::uint8_t kVersion = 3;
constexpr std::uint8_t kVersionOfFirstFormat = 2;
// With which the version 3 came.
constexpr std::uint32_t kFormatWithFormats = 2;

std::uint8_t VersionFor(std::uint32_t format) {
  return format < kFormatWithFormats ? kVersionOfFirstFormat : kVersion;
}

void AppendJob(const ClusterJob& job, std::string* bytes) {
  bytes->push_back(static_cast<char>(job.kind));
  AppendPrefixed(bytes, job.job);
  AppendLittle(bytes, job.epoch);
  bytes->append(job.commit.begin(), job.commit.end());
  AppendPrefixed(bytes, job.sequence);
  AppendVarint(bytes, job.number);
  AppendVarint(bytes, job.messages);
  AppendVarint(bytes, job.malformed);
  AppendLittle(bytes, static_cast<std::uint64_t>(job.committed_at));
  AppendVarint(bytes, job.shards.size());
  for (const std::uint32_t shard : job.shards) AppendVarint(bytes, shard);
}

ClusterJob ReadJob(Decoder* decoder) {
  ClusterJob job;
  const auto kind = decoder->Little<std::uint8_t>();
  if (kind < 1 || kind > static_cast<std::uint8_t>(ClusterJobKind::kRemove)) decoder->Refuse();
  job.kind = ClusterJobKind{kind};
  job.job = decoder->Prefixed();
  job.epoch = decoder->Little<std::uint64_t>();
  decoder->Array(&job.commit);
  job.sequence = decoder->Prefixed();
  job.number = decoder->Varint();
  job.messages = decoder->Varint();
  job.malformed = decoder->Varint();
  job.committed_at = static_cast<std::int64_t>(decoder->Little<std::uint64_t>());
  const std::uint64_t shards = decoder->Varint();
  for (std::uint64_t i = 0; i < shards && decoder->ok(); ++i) {
    job.shards.push_back(static_cast<std::uint32_t>(decoder->Varint()));
  }
  return job;
}

void AppendState(const ClusterState& state, std::string* bytes) {
  AppendLittle<std::uint64_t>(bytes, state.revision);
  bytes->append(state.id.begin(), state.id.end());
  AppendVarint(bytes, state.sites.size());
  for (const ClusterSite& site : state.sites) {
    AppendPrefixed(bytes, site.name);
    AppendLittle<std::uint64_t>(bytes, site.replica);
    AppendPrefixed(bytes, site.peers);
    AppendPrefixed(bytes, site.clients);
    bytes->push_back(static_cast<char>(site.state));
    bytes->append(site.id.begin(), site.id.end());
  }
  AppendLittle<std::uint64_t>(bytes, state.last_replica);
  AppendPrefixed(bytes, state.descriptor);
  AppendPrefixed(bytes, state.retention);
  if (VersionFor(state.format) == kVersionOfFirstFormat) return;
  AppendLittle(bytes, state.format);
  AppendLittle(bytes, state.jobs_epoch);
  AppendVarint(bytes, state.jobs.size());
  for (const ClusterJob& job : state.jobs) AppendJob(job, bytes);
}

// A state that there is not is taken for damage when the bytes are finished.
SiteState ReadSiteState(Decoder* decoder) {
  const auto state = decoder->Little<std::uint8_t>();
  if (state > static_cast<std::uint8_t>(SiteState::kLeaving)) decoder->Refuse();
  return SiteState{state};
}

// Reads a format of a cluster, which one of the first format has not.
std::uint32_t ReadFormat(Decoder* decoder) {
  const auto format = decoder->Little<std::uint32_t>();
  if (format < kFormatWithFormats) decoder->Refuse();
  return format;
}

ClusterState ReadState(Decoder* decoder, std::uint8_t version) {
  ClusterState state;
  state.revision = decoder->Little<std::uint64_t>();
  decoder->Array(&state.id);
  // A count that is too large ends at the first site that is not there.
  const std::uint64_t count = decoder->Varint();
  for (std::uint64_t i = 0; i < count && decoder->ok(); ++i) {
    ClusterSite site;
    site.name = decoder->Prefixed();
    site.replica = decoder->Little<std::uint64_t>();
    site.peers = decoder->Prefixed();
    site.clients = decoder->Prefixed();
    if (version > 1) {
      site.state = ReadSiteState(decoder);
      decoder->Array(&site.id);
    }
    state.last_replica = std::max(state.last_replica, site.replica);
    state.sites.push_back(std::move(site));
  }
  if (version > 1) state.last_replica = decoder->Little<std::uint64_t>();
  state.descriptor = decoder->Prefixed();
  state.retention = decoder->Prefixed();
  if (version <= kVersionOfFirstFormat) return state;
  state.format = ReadFormat(decoder);
  state.jobs_epoch = decoder->Little<std::uint64_t>();
  const std::uint64_t jobs = decoder->Varint();
  for (std::uint64_t i = 0; i < jobs && decoder->ok(); ++i) state.jobs.push_back(ReadJob(decoder));
  return state;
}

ClusterSite* Find(const std::string& name, ClusterState* state) {
  const auto found = std::find_if(state->sites.begin(), state->sites.end(),
                                  [&](const ClusterSite& site) { return site.name == name; });
  return found == state->sites.end() ? nullptr : &*found;
}

Status Found(const ClusterCommand& command, ClusterState* state) {
  if (state->is_founded()) return Conflict("the cluster has been founded already");
  *state = command.founded;
  return Status::Ok();
}

// Sets one of the texts of a site.
Status SetText(const ClusterCommand& command, std::string ClusterSite::* text,
               const std::string& value, ClusterState* state) {
  ClusterSite* const site = Find(command.site, state);
  if (site == nullptr) return state->NoSuchSite(command.site);
  if (site->*text == value) return Conflict("nothing would change");
  site->*text = value;
  return Status::Ok();
}

Status AddSite(const ClusterCommand& command, ClusterState* state) {
  if (!state->is_founded()) return ClusterFault("the cluster has not been founded yet: try again");
  for (const ClusterSite& site : state->sites) {
    if (site.name == command.site) {
      if (site.id == command.id) return Conflict("the site has been added already");
      return ClusterFault("the cluster has a site '" + command.site +
                          "' already: take another name, or have that one leave or be forgotten");
    }
    if (site.peers == command.peers) {
      return ClusterFault("site '" + site.name + "' has the address " + command.peers +
                          " already: each site needs its own");
    }
  }
  if (command.format < state->format) {
    return ClusterFault("the cluster writes format " + std::to_string(state->format) +
                        ", and site '" + command.site + "' can work with format " +
                        std::to_string(command.format) + " at most: upgrade TopicDB there");
  }
  if (state->sites.size() >= kSitesMax) {
    return ClusterFault("the cluster has " + std::to_string(kSitesMax) +
                        " sites, which are the most there may be: have one leave first");
  }
  ClusterSite added{command.site, ++state->last_replica, command.peers,
                    {},           SiteState::kJoining,   command.id};
  const auto place =
      std::find_if(state->sites.begin(), state->sites.end(),
                   [&](const ClusterSite& site) { return site.name > command.site; });
  state->sites.insert(place, std::move(added));
  return Status::Ok();
}

Status SetSiteState(const ClusterCommand& command, ClusterState* state) {
  ClusterSite* const site = Find(command.site, state);
  if (site == nullptr || site->replica != command.replica) return state->NoSuchSite(command.site);
  if (site->state == command.state) return Conflict("nothing would change");
  if (command.state == SiteState::kLeaving) {
    const auto stays = [&](const ClusterSite& one) {
      return one.state == SiteState::kMember && one.name != command.site;
    };
    if (std::none_of(state->sites.begin(), state->sites.end(), stays)) {
      return ClusterFault("site '" + command.site +
                          "' is the last one that has all shards: let another one join first");
    }
  } else if (command.state == SiteState::kJoining || site->state == SiteState::kLeaving) {
    return ClusterFault("site '" + command.site + "' is leaving");
  }
  site->state = command.state;
  return Status::Ok();
}

Status RemoveSite(const ClusterCommand& command, ClusterState* state) {
  ClusterSite* const site = Find(command.site, state);
  if (site == nullptr || site->replica != command.replica) return state->NoSuchSite(command.site);
  if (site->state != SiteState::kLeaving) {
    return ClusterFault("site '" + command.site + "' does not leave");
  }
  std::erase_if(state->sites, [&](const ClusterSite& one) { return one.name == command.site; });
  return Status::Ok();
}

Status SetRetention(const ClusterCommand& command, ClusterState* state) {
  if (!state->is_founded() || RetentionHash(*state) != command.based_on) {
    return Conflict("the retention classes have changed meanwhile");
  }
  state->retention = command.retention;
  return Status::Ok();
}

Status Upgrade(const ClusterCommand& command, ClusterState* state) {
  if (!state->is_founded()) return ClusterFault("the cluster has not been founded yet: try again");
  if (command.format <= state->format) return Conflict("nothing would change");
  if (command.based_on != state->last_replica) {
    return ClusterFault("a site has joined meanwhile: try again");
  }
  state->format = command.format;
  return Status::Ok();
}

Status AddJob(const ClusterCommand& command, ClusterState* state) {
  const ClusterJob& added = command.job;
  if (!state->is_founded()) return Conflict("the cluster has not been founded yet");
  if (state->FindJob(added.job) != nullptr) {
    return Conflict("the job '" + added.job + "' is under way already");
  }
  if (state->jobs.size() >= kJobsMax) {
    return Conflict(std::to_string(kJobsMax) + " jobs are under way: wait for them");
  }
  ClusterJob job = added;
  if (job.kind == ClusterJobKind::kRemove) {
    job.epoch = state->jobs_epoch++;
  } else {
    if (job.epoch != state->jobs_epoch) return Conflict("another job is over since");
    const auto is_later = [&](const ClusterJob& other) {
      return other.kind == ClusterJobKind::kCommit && other.sequence == job.sequence &&
             other.number >= job.number;
    };
    if (std::any_of(state->jobs.begin(), state->jobs.end(), is_later)) {
      return Conflict("a later job of the sequence is under way already");
    }
  }
  state->jobs.push_back(std::move(job));
  return Status::Ok();
}

Status ForgetJob(const ClusterCommand& command, ClusterState* state) {
  if (std::erase(state->jobs, command.job) == 0) return Conflict("there is no such job");
  ++state->jobs_epoch;
  return Status::Ok();
}

Status Change(const ClusterCommand& command, ClusterState* state) {
  switch (command.kind) {
    case ClusterCommandKind::kFound:
      return Found(command, state);
    case ClusterCommandKind::kSetClients:
      return SetText(command, &ClusterSite::clients, command.clients, state);
    case ClusterCommandKind::kSetRetention:
      return SetRetention(command, state);
    case ClusterCommandKind::kAddSite:
      return AddSite(command, state);
    case ClusterCommandKind::kSetPeers:
      return SetText(command, &ClusterSite::peers, command.peers, state);
    case ClusterCommandKind::kSetState:
      return SetSiteState(command, state);
    case ClusterCommandKind::kRemoveSite:
      return RemoveSite(command, state);
    case ClusterCommandKind::kUpgrade:
      return Upgrade(command, state);
    case ClusterCommandKind::kAddJob:
      return AddJob(command, state);
    case ClusterCommandKind::kForgetJob:
      return ForgetJob(command, state);
  }
  return Conflict("there is no such command");
}

}  // namespace

const ClusterSite* ClusterState::FindReplica(std::uint64_t replica) const {
  const auto found = std::find_if(sites.begin(), sites.end(),
                                  [&](const auto& site) { return site.replica == replica; });
  return found == sites.end() ? nullptr : &*found;
}

const ClusterSite* ClusterState::FindSite(std::string_view name) const {
  const auto found =
      std::find_if(sites.begin(), sites.end(), [&](const auto& site) { return site.name == name; });
  return found == sites.end() ? nullptr : &*found;
}

const ClusterJob* ClusterState::FindJob(std::string_view name) const {
  const auto found =
      std::find_if(jobs.begin(), jobs.end(), [&](const auto& job) { return job.job == name; });
  return found == jobs.end() ? nullptr : &*found;
}

bool ClusterState::HasLeft(std::uint64_t replica) const {
  return is_founded() && replica <= last_replica && FindReplica(replica) == nullptr;
}

std::string ClusterState::Names() const {
  std::string names;
  for (const ClusterSite& site : sites) {
    if (!names.empty()) names += ", ";
    names += site.name;
  }
  return names;
}

Status ClusterState::NoSuchSite(const std::string& name) const {
  return ClusterFault("the cluster has no site '" + name + "': its sites are " + Names());
}

std::uint64_t RetentionHash(const ClusterState& state) { return Hash64(state.retention); }

std::uint32_t FormatOf(const ClusterCommand& command) {
  switch (command.kind) {
    case ClusterCommandKind::kFound:
      return command.founded.format;
    case ClusterCommandKind::kAddSite:
      return std::min(command.format, kFormatWithFormats);
    case ClusterCommandKind::kSetClients:
    case ClusterCommandKind::kSetRetention:
    case ClusterCommandKind::kSetPeers:
    case ClusterCommandKind::kSetState:
    case ClusterCommandKind::kRemoveSite:
      return kClusterFormatFirst;
    case ClusterCommandKind::kUpgrade:
    case ClusterCommandKind::kAddJob:
    case ClusterCommandKind::kForgetJob:
      break;
  }
  return kFormatWithFormats;
}

Status Apply(const ClusterCommand& command, ClusterState* state) {
  const std::uint64_t revision = state->revision;
  TOPICDB_RETURN_IF_ERROR(Change(command, state));
  state->revision = revision + 1;
  return Status::Ok();
}

std::string Encode(const ClusterCommand& command) {
  std::string bytes;
  const std::uint8_t version = VersionFor(FormatOf(command));
  bytes.push_back(static_cast<char>(version));
  bytes.push_back(static_cast<char>(command.kind));
  switch (command.kind) {
    case ClusterCommandKind::kFound:
      AppendState(command.founded, &bytes);
      break;
    case ClusterCommandKind::kSetClients:
      AppendPrefixed(&bytes, command.site);
      AppendPrefixed(&bytes, command.clients);
      break;
    case ClusterCommandKind::kSetRetention:
      AppendLittle<std::uint64_t>(&bytes, command.based_on);
      AppendPrefixed(&bytes, command.retention);
      break;
    case ClusterCommandKind::kAddSite:
      AppendPrefixed(&bytes, command.site);
      AppendPrefixed(&bytes, command.peers);
      bytes.append(command.id.begin(), command.id.end());
      if (version > kVersionOfFirstFormat) AppendLittle(&bytes, command.format);
      break;
    case ClusterCommandKind::kSetPeers:
      AppendPrefixed(&bytes, command.site);
      AppendPrefixed(&bytes, command.peers);
      break;
    case ClusterCommandKind::kSetState:
      AppendPrefixed(&bytes, command.site);
      AppendLittle<std::uint64_t>(&bytes, command.replica);
      bytes.push_back(static_cast<char>(command.state));
      break;
    case ClusterCommandKind::kRemoveSite:
      AppendPrefixed(&bytes, command.site);
      AppendLittle<std::uint64_t>(&bytes, command.replica);
      break;
    case ClusterCommandKind::kUpgrade:
      AppendLittle(&bytes, command.format);
      AppendLittle(&bytes, command.based_on);
      break;
    case ClusterCommandKind::kAddJob:
    case ClusterCommandKind::kForgetJob:
      AppendJob(command.job, &bytes);
      break;
  }
  AppendHash(&bytes);
  return bytes;
}

Result<ClusterCommand> DecodeClusterCommand(std::string_view bytes) {
  const std::string what = "a command to the cluster";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kVersion));
  const auto version = static_cast<std::uint8_t>(bytes[0]);
  ClusterCommand command;
  command.kind = ClusterCommandKind{decoder.Little<std::uint8_t>()};
  switch (command.kind) {
    case ClusterCommandKind::kFound:
      command.founded = ReadState(&decoder, version);
      break;
    case ClusterCommandKind::kSetClients:
      command.site = decoder.Prefixed();
      command.clients = decoder.Prefixed();
      break;
    case ClusterCommandKind::kSetRetention:
      command.based_on = decoder.Little<std::uint64_t>();
      command.retention = decoder.Prefixed();
      break;
    case ClusterCommandKind::kAddSite:
      command.site = decoder.Prefixed();
      command.peers = decoder.Prefixed();
      decoder.Array(&command.id);
      if (version > kVersionOfFirstFormat) command.format = ReadFormat(&decoder);
      break;
    case ClusterCommandKind::kSetPeers:
      command.site = decoder.Prefixed();
      command.peers = decoder.Prefixed();
      break;
    case ClusterCommandKind::kSetState:
      command.site = decoder.Prefixed();
      command.replica = decoder.Little<std::uint64_t>();
      command.state = ReadSiteState(&decoder);
      break;
    case ClusterCommandKind::kRemoveSite:
      command.site = decoder.Prefixed();
      command.replica = decoder.Little<std::uint64_t>();
      break;
    case ClusterCommandKind::kUpgrade:
      command.format = decoder.Little<std::uint32_t>();
      command.based_on = decoder.Little<std::uint64_t>();
      break;
    case ClusterCommandKind::kAddJob:
    case ClusterCommandKind::kForgetJob:
      command.job = ReadJob(&decoder);
      break;
    default:
      return UnknownKind(what, static_cast<std::uint8_t>(command.kind));
  }
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return command;
}

std::string Encode(const ClusterSnapshot& snapshot) {
  std::string bytes;
  bytes.push_back(static_cast<char>(VersionFor(snapshot.state.format)));
  AppendLittle<std::uint64_t>(&bytes, snapshot.index);
  AppendState(snapshot.state, &bytes);
  AppendHash(&bytes);
  return bytes;
}

Result<ClusterSnapshot> DecodeClusterSnapshot(std::string_view bytes) {
  const std::string what = "the state of the cluster";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kVersion));
  const auto version = static_cast<std::uint8_t>(bytes[0]);
  ClusterSnapshot snapshot;
  snapshot.index = decoder.Little<std::uint64_t>();
  snapshot.state = ReadState(&decoder, version);
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return snapshot;
}

}  // namespace topicdb::replication
