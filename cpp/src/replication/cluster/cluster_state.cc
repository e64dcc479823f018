#include "replication/cluster/cluster_state.h"

#include <algorithm>
#include <utility>

#include "base/bytes/coding.h"
#include "replication/hashed_bytes.h"

namespace topicdb::replication {

namespace {

constexpr std::uint8_t kCommandVersion = 1;
constexpr std::uint8_t kSnapshotVersion = 1;

void AppendState(const ClusterState& state, std::string* bytes) {
  AppendLittle<std::uint64_t>(bytes, state.revision);
  bytes->append(state.id.begin(), state.id.end());
  AppendVarint(bytes, state.sites.size());
  for (const ClusterSite& site : state.sites) {
    AppendPrefixed(bytes, site.name);
    AppendLittle<std::uint64_t>(bytes, site.replica);
    AppendPrefixed(bytes, site.peers);
    AppendPrefixed(bytes, site.clients);
  }
  AppendPrefixed(bytes, state.descriptor);
  AppendPrefixed(bytes, state.retention);
}

ClusterState ReadState(Decoder* decoder) {
  ClusterState state;
  state.revision = decoder->Little<std::uint64_t>();
  const std::string_view id = decoder->Bytes(state.id.size());
  std::copy(id.begin(), id.end(), state.id.begin());
  // A count that is too large ends at the first site that is not there.
  const std::uint64_t count = decoder->Varint();
  for (std::uint64_t i = 0; i < count && decoder->ok(); ++i) {
    ClusterSite site;
    site.name = decoder->Prefixed();
    site.replica = decoder->Little<std::uint64_t>();
    site.peers = decoder->Prefixed();
    site.clients = decoder->Prefixed();
    state.sites.push_back(std::move(site));
  }
  state.descriptor = decoder->Prefixed();
  state.retention = decoder->Prefixed();
  return state;
}

Status Found(const ClusterCommand& command, ClusterState* state) {
  if (state->is_founded()) return Conflict("the cluster has been founded already");
  *state = command.founded;
  return Status::Ok();
}

Status SetClients(const ClusterCommand& command, ClusterState* state) {
  const auto site = std::find_if(state->sites.begin(), state->sites.end(),
                                 [&](const auto& one) { return one.name == command.site; });
  if (site == state->sites.end()) {
    return Conflict("the cluster has no site '" + command.site + "'");
  }
  if (site->clients == command.clients) return Conflict("nothing would change");
  site->clients = command.clients;
  return Status::Ok();
}

Status Change(const ClusterCommand& command, ClusterState* state) {
  switch (command.kind) {
    case ClusterCommandKind::kFound:
      return Found(command, state);
    case ClusterCommandKind::kSetClients:
      return SetClients(command, state);
  }
  return Conflict("there is no such command");
}

}  // namespace

const ClusterSite* ClusterState::FindReplica(std::uint64_t replica) const {
  const auto found = std::find_if(sites.begin(), sites.end(),
                                  [&](const auto& site) { return site.replica == replica; });
  return found == sites.end() ? nullptr : &*found;
}

Status Apply(const ClusterCommand& command, ClusterState* state) {
  const std::uint64_t revision = state->revision;
  TOPICDB_RETURN_IF_ERROR(Change(command, state));
  state->revision = revision + 1;
  return Status::Ok();
}

std::string Encode(const ClusterCommand& command) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kCommandVersion));
  bytes.push_back(static_cast<char>(command.kind));
  switch (command.kind) {
    case ClusterCommandKind::kFound:
      AppendState(command.founded, &bytes);
      break;
    case ClusterCommandKind::kSetClients:
      AppendPrefixed(&bytes, command.site);
      AppendPrefixed(&bytes, command.clients);
      break;
  }
  AppendHash(&bytes);
  return bytes;
}

Result<ClusterCommand> DecodeClusterCommand(std::string_view bytes) {
  const std::string what = "a command to the cluster";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kCommandVersion));
  ClusterCommand command;
  command.kind = ClusterCommandKind{decoder.Little<std::uint8_t>()};
  switch (command.kind) {
    case ClusterCommandKind::kFound:
      command.founded = ReadState(&decoder);
      break;
    case ClusterCommandKind::kSetClients:
      command.site = decoder.Prefixed();
      command.clients = decoder.Prefixed();
      break;
    default:
      return Corruption(what + " is damaged");
  }
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return command;
}

std::string Encode(const ClusterSnapshot& snapshot) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kSnapshotVersion));
  AppendLittle<std::uint64_t>(&bytes, snapshot.index);
  AppendState(snapshot.state, &bytes);
  AppendHash(&bytes);
  return bytes;
}

Result<ClusterSnapshot> DecodeClusterSnapshot(std::string_view bytes) {
  const std::string what = "the state of the cluster";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kSnapshotVersion));
  ClusterSnapshot snapshot;
  snapshot.index = decoder.Little<std::uint64_t>();
  snapshot.state = ReadState(&decoder);
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return snapshot;
}

}  // namespace topicdb::replication
