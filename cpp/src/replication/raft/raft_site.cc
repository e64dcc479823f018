#include "replication/raft/raft_site.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/bytes/coding.h"
#include "topicdb_raft.h"

namespace topicdb::replication {

namespace {

constexpr std::chrono::milliseconds kTick{50};
constexpr std::size_t kMembersMax = 64;

Status StatusFor(topicdb_raft_code code, std::string text) {
  switch (code) {
    case TOPICDB_RAFT_OK:
      return Status::Ok();
    case TOPICDB_RAFT_NOT_LEADER:
    case TOPICDB_RAFT_NOT_ASKED:
      return NotLeader(std::move(text));
    case TOPICDB_RAFT_UNKNOWN:
    case TOPICDB_RAFT_TIMED_OUT:
      return UnknownOutcome(std::move(text));
    case TOPICDB_RAFT_NO_ANSWER:
      return NotFound(std::move(text));
    case TOPICDB_RAFT_REFUSED:
      return InvalidArgument(std::move(text));
    case TOPICDB_RAFT_DAMAGED:
    case TOPICDB_RAFT_FOREIGN:
      return Corruption(std::move(text));
    case TOPICDB_RAFT_TOO_NEW:
      return SchemaFault(std::move(text));
    case TOPICDB_RAFT_DISK:
    case TOPICDB_RAFT_BROKEN:
      break;
  }
  return StorageFault(std::move(text));
}

// Returns the status of a call, and frees its text. `error` is where the call has put it.
Status Take(topicdb_raft_code code, char** error) {
  std::string text = *error == nullptr ? std::string() : *error;
  topicdb_raft_free(*error);
  return StatusFor(code, std::move(text));
}

RaftRole RoleOf(topicdb_raft_role role) {
  if (role == TOPICDB_RAFT_LEADER) return RaftRole::kLeader;
  return role == TOPICDB_RAFT_CANDIDATE ? RaftRole::kCandidate : RaftRole::kFollower;
}

topicdb_raft_bytes BytesOf(const std::string& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

std::string_view ViewOf(const topicdb_raft_bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

std::uint64_t Milliseconds(std::chrono::milliseconds time) {
  return static_cast<std::uint64_t>(std::max<std::chrono::milliseconds::rep>(time.count(), 1));
}

std::string WithGroup(std::uint64_t group, std::string_view request) {
  std::string bytes;
  AppendLittle<std::uint64_t>(&bytes, group);
  bytes += request;
  return bytes;
}

std::string TakeBuffer(topicdb_raft_buffer* buffer) {
  std::string taken(ViewOf({topicdb_raft_buffer_data(buffer), topicdb_raft_buffer_size(buffer)}));
  topicdb_raft_buffer_free(buffer);
  return taken;
}

// Returns options for the C functions. They refer to the texts of `options`.
topicdb_raft_options RawOptions(const RaftSiteOptions& options) {
  topicdb_raft_options raw{};
  raw.interface_version = TOPICDB_RAFT_INTERFACE;
  raw.tick_ms = static_cast<std::uint32_t>(kTick.count());
  raw.election_ticks = static_cast<std::uint32_t>(options.election_timeout / kTick);
  raw.directory = options.directory.c_str();
  std::copy(options.id.begin(), options.id.end(), raw.site);
  raw.incarnation = options.incarnation;
  raw.replica = options.replica;
  raw.listen = options.listen.c_str();
  if (!options.authority.empty()) {
    raw.authority = options.authority.c_str();
    raw.certificate = options.certificate.c_str();
    raw.key = options.key.c_str();
  }
  return raw;
}

}  // namespace

KeptBytes CommittedEntry::Keep() const {
  if (bytes.empty()) return {};
  if (entry == nullptr) return KeptBytes(std::string(bytes));
  return {std::shared_ptr<const void>(topicdb_raft_keep(entry),
                                      [](const void* kept) {
                                        topicdb_raft_buffer_free(static_cast<topicdb_raft_buffer*>(
                                            const_cast<void*>(kept)));
                                      }),
          bytes};
}

struct RaftSite::Callbacks {
  static RaftSite* Site(void* context) { return static_cast<RaftSite*>(context); }

  // Calls the client of a group, if there is one.
  template <typename Call>
  static void With(void* context, std::uint64_t group, Call call) {
    RaftSite* const site = Site(context);
    const MutexLock lock(site->mutex_);
    const auto found = site->clients_.find(group);
    if (found != site->clients_.end()) call(found->second);
  }
  static void Committed(void* context, std::uint64_t group, const topicdb_raft_entry* entries,
                        std::size_t count) {
    std::vector<CommittedEntry> taken;
    taken.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const topicdb_raft_entry& entry = entries[i];
      taken.push_back({{entry.index, entry.term}, ViewOf(entry.data), &entry});
    }
    With(context, group, [&](RaftClient* client) { client->TakeCommitted(taken); });
  }
  static void RoleChanged(void* context, std::uint64_t group, topicdb_raft_role role,
                          std::uint64_t term, std::uint64_t leader) {
    With(context, group,
         [&](RaftClient* client) { client->TakePosition({RoleOf(role), term, leader}); });
  }
  static void TakeSnapshot(void* context, std::uint64_t group) {
    With(context, group, [](RaftClient* client) { client->MakeSnapshot(); });
  }
  static int FetchSnapshot(void* context, std::uint64_t group, std::uint64_t,
                           topicdb_raft_bytes manifest) {
    bool is_here = false;
    With(context, group,
         [&](RaftClient* client) { is_here = client->FetchSnapshot(ViewOf(manifest)); });
    return is_here ? 1 : 0;
  }
  static int InstallSnapshot(void* context, std::uint64_t group, std::uint64_t,
                             topicdb_raft_bytes) {
    Status installed = NotFound("");
    With(context, group, [&](RaftClient* client) { installed = client->InstallSnapshot(); });
    return installed.ok() ? 1 : 0;
  }
  // Other replicas ask with the group in front. Without an answer, the other side is told so.
  static void Answer(void* context, std::uint64_t, topicdb_raft_bytes request,
                     topicdb_raft_reply* reply) {
    RaftSite* const site = Site(context);
    Decoder decoder(ViewOf(request));
    const auto group = decoder.Little<std::uint64_t>();
    RaftAnswerer* answerer = nullptr;
    {
      const MutexLock lock(site->mutex_);
      const auto found = site->clients_.find(group);
      if (group == kSiteGroup) {
        answerer = site->answerer_;
      } else if (found != site->clients_.end()) {
        answerer = found->second;
      }
      if (!decoder.ok() || answerer == nullptr) return;
      ++site->answering_[group];
    }
    const auto answer = answerer->Answer(decoder.rest());
    if (answer.ok()) topicdb_raft_reply_with(reply, BytesOf(*answer));
    const MutexLock lock(site->mutex_);
    --site->answering_[group];
    site->answered_.NotifyAll();
  }
  static void Stopped(void* context, topicdb_raft_code code, const char* error) {
    RaftSite* const site = Site(context);
    const MutexLock lock(site->mutex_);
    site->stopped_ = StatusFor(code, error == nullptr ? "" : error);
    for (const auto& [group, client] : site->clients_) client->TakeStop(site->stopped_);
  }
};

Result<std::unique_ptr<RaftSite>> RaftSite::Open(const RaftSiteOptions& options) {
  std::unique_ptr<RaftSite> site(new RaftSite(options.replica));
  const topicdb_raft_options raw = RawOptions(options);
  const topicdb_raft_client client{site.get(),
                                   &Callbacks::Committed,
                                   &Callbacks::RoleChanged,
                                   &Callbacks::TakeSnapshot,
                                   &Callbacks::FetchSnapshot,
                                   &Callbacks::InstallSnapshot,
                                   &Callbacks::Stopped,
                                   &Callbacks::Answer};
  char* error = nullptr;
  const topicdb_raft_code code = topicdb_raft_open(&raw, &client, &site->site_, &error);
  const Status opened = Take(code, &error).WithContext("opening the log in " + options.directory);
  if (code == TOPICDB_RAFT_DAMAGED) {
    return Corruption(opened.message() +
                      ". Run `topicdb cluster forget URL SITE` at another site, and then start "
                      "this one in an empty directory with --join");
  }
  TOPICDB_RETURN_IF_ERROR(opened);
  return site;
}

Status RaftSite::BeAlone(const RaftSiteOptions& options) {
  const topicdb_raft_options raw = RawOptions(options);
  char* error = nullptr;
  return Take(topicdb_raft_be_alone(&raw, &error), &error);
}

RaftSite::~RaftSite() {
  if (site_ != nullptr) topicdb_raft_close(site_, nullptr);
}

std::uint16_t RaftSite::port() const { return topicdb_raft_port(site_); }

void RaftSite::NoteLeft(std::uint64_t replica) { topicdb_raft_exclude(site_, replica); }

Status RaftSite::SetPeer(std::uint64_t replica, const std::string& address) {
  char* error = nullptr;
  const char* const place = address.empty() ? nullptr : address.c_str();
  return Take(topicdb_raft_set_peer(site_, replica, place, &error), &error);
}

Result<std::vector<std::uint64_t>> RaftSite::Groups() const {
  std::vector<std::uint64_t> groups;
  std::size_t count = 0;
  do {
    groups.resize(count);
    char* error = nullptr;
    TOPICDB_RETURN_IF_ERROR(
        Take(topicdb_raft_groups(site_, groups.data(), groups.size(), &count, &error), &error));
  } while (count > groups.size());
  return groups;
}

Status RaftSite::Join(std::uint64_t group, const std::vector<std::uint64_t>& voters,
                      std::optional<std::uint64_t> applied, RaftClient* client) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> groups, Groups());
  {
    const MutexLock lock(mutex_);
    TOPICDB_RETURN_IF_ERROR(stopped_);
    clients_[group] = client;
  }
  char* error = nullptr;
  Status joined;
  const bool has_group = std::find(groups.begin(), groups.end(), group) != groups.end();
  if (has_group && !applied.has_value()) {
    joined = Take(topicdb_raft_open_damaged_group(site_, group, &error), &error);
  } else if (has_group) {
    // The first entry of a group says who its first members are. Their clients begin behind it.
    const std::uint64_t begins = voters.empty() ? 0 : 1;
    joined =
        Take(topicdb_raft_open_group(site_, group, std::max(*applied, begins), &error), &error);
  } else {
    joined =
        Take(topicdb_raft_create_group(site_, group, voters.data(), voters.size(), &error), &error);
  }
  if (!joined.ok()) Leave(group);
  return joined;
}

void RaftSite::Leave(std::uint64_t group) {
  const MutexLock lock(mutex_);
  clients_.erase(group);
  while (answering_[group] != 0) answered_.Wait(mutex_);
}

Result<LogPlace> RaftSite::Propose(std::uint64_t group, const std::vector<std::string>& entries,
                                   std::chrono::milliseconds patience) {
  std::vector<topicdb_raft_bytes> raw;
  raw.reserve(entries.size());
  for (const std::string& entry : entries) raw.push_back(BytesOf(entry));
  LogPlace place;
  std::uint64_t leader = 0;
  char* error = nullptr;
  const topicdb_raft_code code =
      topicdb_raft_propose(site_, group, raw.data(), raw.size(), Milliseconds(patience),
                           &place.index, &place.term, &leader, &error);
  if (code == TOPICDB_RAFT_NOT_LEADER) {
    topicdb_raft_free(error);
    return NotLeader(leader == 0 ? std::string("no replica is known to lead: try again")
                                 : "replica " + std::to_string(leader) + " leads: ask that one");
  }
  if (code == TOPICDB_RAFT_UNKNOWN) {
    topicdb_raft_free(error);
    return UnknownOutcome("this replica heard from no majority for " +
                          std::to_string(patience.count()) +
                          " ms: what was written may be kept or not");
  }
  TOPICDB_RETURN_IF_ERROR(Take(code, &error));
  return place;
}

Status RaftSite::Change(std::uint64_t group, const std::vector<std::uint64_t>& voters,
                        const std::vector<std::uint64_t>& learners,
                        std::chrono::milliseconds patience) {
  char* error = nullptr;
  const topicdb_raft_code code =
      topicdb_raft_change(site_, group, voters.data(), voters.size(), learners.data(),
                          learners.size(), Milliseconds(patience), &error);
  const Status changed = Take(code, &error);
  return code == TOPICDB_RAFT_REFUSED ? Conflict(changed.message()) : changed;
}

Status RaftSite::Transfer(std::uint64_t group, std::uint64_t to,
                          std::chrono::milliseconds patience) {
  char* error = nullptr;
  return Take(topicdb_raft_transfer(site_, group, to, Milliseconds(patience), &error), &error);
}

Status RaftSite::ReadBarrier(std::uint64_t group, std::chrono::milliseconds patience) {
  char* error = nullptr;
  const topicdb_raft_code code =
      topicdb_raft_read_barrier(site_, group, Milliseconds(patience), &error);
  if (code != TOPICDB_RAFT_TIMED_OUT) return Take(code, &error);
  topicdb_raft_free(error);
  return Stale("this replica has not come to what was acknowledged within " +
               std::to_string(patience.count()) + " ms: wait longer, or read from another one");
}

Result<RaftStatus> RaftSite::StatusOf(std::uint64_t group) const {
  topicdb_raft_status raw{};
  std::vector<topicdb_raft_member> members(kMembersMax);
  char* error = nullptr;
  TOPICDB_RETURN_IF_ERROR(Take(
      topicdb_raft_get_status(site_, group, &raw, members.data(), members.size(), &error), &error));
  RaftStatus status;
  status.position = {RoleOf(raw.role), raw.term, raw.leader};
  status.committed = raw.commit;
  status.applied = raw.applied;
  status.first = raw.first;
  status.last = raw.last;
  members.resize(std::min(members.size(), raw.members));
  for (const topicdb_raft_member& member : members) {
    status.members.push_back({member.replica, member.matched, member.is_voter != 0,
                              member.is_leaving != 0, member.is_active != 0,
                              member.gets_snapshot != 0});
  }
  return status;
}

Result<std::string> RaftSite::Ask(std::uint64_t replica, std::uint64_t group,
                                  std::string_view request, std::chrono::milliseconds patience,
                                  std::optional<std::chrono::milliseconds> connect_patience) {
  const std::string bytes = WithGroup(group, request);
  topicdb_raft_buffer* answer = nullptr;
  char* error = nullptr;
  TOPICDB_RETURN_IF_ERROR(Take(topicdb_raft_ask(site_, replica, BytesOf(bytes),
                                                Milliseconds(connect_patience.value_or(patience)),
                                                Milliseconds(patience), &answer, &error),
                               &error));
  return TakeBuffer(answer);
}

Result<std::string> RaftSite::AskAt(const std::string& address, const RaftSiteOptions& options,
                                    std::string_view request, std::chrono::milliseconds patience) {
  const std::string bytes = WithGroup(kSiteGroup, request);
  const auto file = [](const std::string& path) { return path.empty() ? nullptr : path.c_str(); };
  topicdb_raft_buffer* answer = nullptr;
  char* error = nullptr;
  TOPICDB_RETURN_IF_ERROR(
      Take(topicdb_raft_ask_at(address.c_str(), file(options.authority), file(options.certificate),
                               file(options.key), BytesOf(bytes), Milliseconds(patience), &answer,
                               &error),
           &error));
  return TakeBuffer(answer);
}

void RaftSite::AnswerBy(RaftAnswerer* answerer) {
  const MutexLock lock(mutex_);
  answerer_ = answerer;
  while (answerer == nullptr && answering_[kSiteGroup] != 0) answered_.Wait(mutex_);
}

void RaftSite::NoteApplied(std::uint64_t group, std::uint64_t index) {
  topicdb_raft_applied(site_, group, index);
}

void RaftSite::NoteFlushed(std::uint64_t group, std::uint64_t index) {
  topicdb_raft_flushed(site_, group, index);
}

void RaftSite::NoteRefilled(std::uint64_t group, std::uint64_t index) {
  topicdb_raft_refilled(site_, group, index);
}

void RaftSite::NoteSnapshotTaken(std::uint64_t group, std::uint64_t index,
                                 const std::string& manifest) {
  topicdb_raft_snapshot_taken(site_, group, index, BytesOf(manifest));
}

void RaftSite::NoteSnapshotFetched(std::uint64_t group, bool is_here) {
  topicdb_raft_snapshot_fetched(site_, group, is_here ? 1 : 0);
}

}  // namespace topicdb::replication
