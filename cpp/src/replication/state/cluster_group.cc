#include "replication/state/cluster_group.h"

#include <algorithm>

#include "base/bytes/coding.h"
#include "replication/deadline.h"
#include "replication/raft/format.h"
#include "replication/state/cluster_file.h"
#include "replication/status_bytes.h"

namespace topicdb::replication {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kOutcomesMax = 1'000;
// How long a site waits before it looks again who leads.
constexpr milliseconds kLookAgainAfter(50);
// How long it waits for a connection to the site that leads before it looks again.
constexpr milliseconds kConnectPatience(200);
// How long a leader waits for a majority on behalf of another site.
constexpr milliseconds kAnswerPatience(5'000);

Status NoMajority(milliseconds patience) {
  return NotLeader("no site has come to lead the cluster within " +
                   std::to_string(patience.count()) +
                   " ms: a majority of the sites must be up, and all must be given the same sites");
}

// The answer of a leader: what became of a command, and the entry up to which it had applied all.
std::string EncodeOutcome(const Status& outcome, std::uint64_t index) {
  std::string bytes;
  AppendStatus(&bytes, outcome);
  AppendLittle<std::uint64_t>(&bytes, index);
  return bytes;
}

}  // namespace

Result<std::unique_ptr<ClusterGroup>> ClusterGroup::Open(RaftSite* site,
                                                         ClusterGroupOptions options) {
  std::unique_ptr<ClusterGroup> group(new ClusterGroup(site, std::move(options)));
  TOPICDB_ASSIGN_OR_RETURN(auto stored, LoadClusterSnapshot(group->options_.path));
  ClusterSnapshot found = std::move(stored).value_or(ClusterSnapshot());
  TOPICDB_RETURN_IF_ERROR(CheckFormat(found.state.format, group->options_.newest_format));
  const std::uint64_t index = found.index;
  group->NoteLeft(found.state);
  {
    const MutexLock lock(group->mutex_);
    group->now_ = std::move(found);
  }
  TOPICDB_RETURN_IF_ERROR(
      site->Join(group->options_.group, group->options_.voters, index, group.get())
          .WithContext("joining the cluster"));
  group->worker_ = std::thread([self = group.get()] { self->Work(); });
  return group;
}

ClusterState ClusterGroup::state() const {
  const MutexLock lock(mutex_);
  return now_.state;
}

std::uint32_t ClusterGroup::format() const {
  const MutexLock lock(mutex_);
  return now_.state.format;
}

Status ClusterGroup::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

bool ClusterGroup::leads() const {
  const MutexLock lock(mutex_);
  return position_.role == RaftRole::kLeader;
}

bool ClusterGroup::knows_leader() const {
  const MutexLock lock(mutex_);
  return position_.leader != 0;
}

void ClusterGroup::Watch(const void* owner, std::function<void()> changed) {
  const MutexLock lock(mutex_);
  watches_.erase(owner);
  if (!changed) return;
  changed();
  watches_.emplace(owner, std::move(changed));
}

Status ClusterGroup::Propose(const ClusterCommand& command, milliseconds patience) {
  const std::string bytes = Encode(command);
  const auto deadline = Clock::now() + patience;
  for (;;) {
    RaftPosition position;
    {
      const MutexLock lock(mutex_);
      TOPICDB_RETURN_IF_ERROR(failure_);
      // Whoever founds or upgrades a cluster has other sites that can work with more.
      if (now_.state.is_founded() && command.kind != ClusterCommandKind::kUpgrade) {
        TOPICDB_RETURN_IF_ERROR(CheckInForce(FormatOf(command), now_.state.format));
      }
      if (closing_) return Closed("the site is being closed");
      position = position_;
    }
    Status done = NoMajority(patience);
    if (position.role == RaftRole::kLeader) {
      done = ProposeHere(bytes, LeftUntil(deadline));
    } else if (position.leader != 0 && position.leader != site_.replica()) {
      done = ProposeAt(position.leader, bytes, LeftUntil(deadline));
    }
    if (done.code() != Code::kNotLeader || Clock::now() >= deadline) return done;
    const MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, std::min(deadline, Clock::now() + kLookAgainAfter));
  }
}

Status ClusterGroup::ProposeHere(const std::string& command, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  TOPICDB_ASSIGN_OR_RETURN(const LogPlace place,
                           site_.Propose(options_.group, {command}, patience));
  TOPICDB_RETURN_IF_ERROR(AwaitIndex(place.index, deadline));
  const MutexLock lock(mutex_);
  const auto found = std::find_if(outcomes_.begin(), outcomes_.end(), [&](const auto& outcome) {
    return outcome.first == place.index;
  });
  if (found != outcomes_.end()) return found->second;
  return UnknownOutcome("the outcome of entry " + std::to_string(place.index) + " is forgotten");
}

Status ClusterGroup::ProposeAt(std::uint64_t leader, const std::string& command,
                               milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  const auto answer = site_.Ask(leader, options_.group, command, patience, kConnectPatience);
  if (answer.status().code() == Code::kNotFound) return NotLeader(answer.status().message());
  TOPICDB_RETURN_IF_ERROR(answer.status());
  Decoder decoder(*answer);
  Status outcome;
  const Status read = ReadStatus(&decoder, &outcome);
  const auto index = decoder.Little<std::uint64_t>();
  if (!read.ok() || !decoder.Finished()) {
    return UnknownOutcome("the answer of the leader is damaged");
  }
  if (outcome.ok() || IsRefusal(outcome)) {
    TOPICDB_RETURN_IF_ERROR(AwaitIndex(index, deadline));
  }
  return outcome;
}

Result<std::string> ClusterGroup::Answer(std::string_view request) {
  TOPICDB_RETURN_IF_ERROR(DecodeClusterCommand(request).status());
  {
    const MutexLock lock(mutex_);
    if (position_.role != RaftRole::kLeader) return NotLeader("this site does not lead");
  }
  const Status outcome = ProposeHere(std::string(request), kAnswerPatience);
  const MutexLock lock(mutex_);
  return EncodeOutcome(outcome, now_.index);
}

Status ClusterGroup::Await(const std::function<bool(const ClusterSnapshot&)>& holds,
                           Clock::time_point deadline, const Status& late) const {
  const MutexLock lock(mutex_);
  while (!holds(now_)) {
    TOPICDB_RETURN_IF_ERROR(failure_);
    if (closing_) return Closed("the site is being closed");
    if (Clock::now() >= deadline) return late;
    changed_.WaitUntil(mutex_, deadline);
  }
  return Status::Ok();
}

Status ClusterGroup::AwaitIndex(std::uint64_t index, Clock::time_point deadline) const {
  return Await([&](const ClusterSnapshot& now) { return now.index >= index; }, deadline,
               UnknownOutcome("this site has not come to entry " + std::to_string(index) +
                              " of the cluster in time"));
}

Status ClusterGroup::AwaitFounded(Clock::time_point deadline) const {
  // The state that a site has at first is that of the site which let it join.
  return Await(
      [](const ClusterSnapshot& now) { return now.state.is_founded() && now.index > 0; }, deadline,
      NotLeader(
          "the state of the cluster has not come in time: a majority of the sites must be up, "
          "and find this one at its address"));
}

Status ClusterGroup::AwaitLeft(std::uint64_t replica, Clock::time_point deadline) const {
  return Await([&](const ClusterSnapshot& now) { return now.state.HasLeft(replica); }, deadline,
               UnknownOutcome("the site leaves, and some shards have it still: the state of the "
                              "cluster shows when it has left"));
}

void ClusterGroup::TakeCommitted(const std::vector<CommittedEntry>& entries) {
  const MutexLock lock(mutex_);
  for (const CommittedEntry& entry : entries) {
    to_apply_.push_back({entry.place.index, std::string(entry.bytes)});
  }
  changed_.NotifyAll();
}

void ClusterGroup::TakePosition(const RaftPosition& position) {
  const MutexLock lock(mutex_);
  position_ = position;
  changed_.NotifyAll();
}

void ClusterGroup::TakeStop(const Status& why) { Fail(why); }

void ClusterGroup::Work() {
  for (;;) {
    std::deque<Committed> entries;
    {
      const MutexLock lock(mutex_);
      while (!closing_ && (to_apply_.empty() || !failure_.ok())) changed_.Wait(mutex_);
      if (closing_) return;
      entries.swap(to_apply_);
    }
    ApplyAll(entries);
  }
}

void ClusterGroup::ApplyAll(const std::deque<Committed>& entries) {
  const MutexLock file(file_mutex_);
  ClusterSnapshot now;
  {
    const MutexLock lock(mutex_);
    now = now_;
  }
  std::vector<std::pair<std::uint64_t, Status>> outcomes;
  for (const Committed& entry : entries) {
    if (entry.index <= now.index) continue;  // a snapshot had it
    now.index = entry.index;
    if (entry.bytes.empty()) continue;  // a leader began
    Status outcome;
    const Status followed = Follow(entry.bytes, &now.state, &outcome);
    // A site that cannot follow would differ from the others.
    if (!followed.ok()) return Fail(followed.WithContext("the state of the cluster"));
    outcomes.emplace_back(entry.index, std::move(outcome));
  }
  {
    const MutexLock lock(mutex_);
    outcomes_.insert(outcomes_.end(), outcomes.begin(), outcomes.end());
    while (outcomes_.size() > kOutcomesMax) outcomes_.pop_front();
  }
  const std::uint64_t index = now.index;
  if (const Status published = Publish(std::move(now)); !published.ok()) return Fail(published);
  site_.NoteApplied(options_.group, index);
  site_.NoteFlushed(options_.group, index);
}

Status ClusterGroup::Follow(const std::string& command, ClusterState* state,
                            Status* outcome) const {
  TOPICDB_ASSIGN_OR_RETURN(const ClusterCommand decoded, DecodeClusterCommand(command));
  TOPICDB_RETURN_IF_ERROR(CheckFormat(FormatOf(decoded), options_.newest_format));
  *outcome = Apply(decoded, state);
  return CheckFormat(state->format, options_.newest_format);
}

void ClusterGroup::NoteLeft(const ClusterState& state) {
  for (std::uint64_t replica = 1; replica <= state.last_replica; ++replica) {
    if (state.HasLeft(replica)) site_.NoteLeft(replica);
  }
}

Status ClusterGroup::Publish(ClusterSnapshot now) {
  TOPICDB_RETURN_IF_ERROR(StoreClusterSnapshot(options_.path, now));
  NoteLeft(now.state);
  const MutexLock lock(mutex_);
  now_ = std::move(now);
  changed_.NotifyAll();
  for (const auto& [owner, changed] : watches_) changed();
  return Status::Ok();
}

void ClusterGroup::MakeSnapshot() {
  const MutexLock lock(mutex_);
  site_.NoteSnapshotTaken(options_.group, now_.index, Encode(now_));
}

bool ClusterGroup::FetchSnapshot(std::string_view manifest) {
  auto decoded = DecodeClusterSnapshot(manifest);
  Status readable = decoded.status();
  if (readable.ok()) readable = CheckFormat(decoded->state.format, options_.newest_format);
  if (!readable.ok()) {  // the leader tries again
    if (readable.code() == Code::kSchema) Fail(readable.WithContext("the state of the cluster"));
    site_.NoteSnapshotFetched(options_.group, false);
    return false;
  }
  const MutexLock lock(mutex_);
  fetched_ = std::move(*decoded);
  return true;
}

Status ClusterGroup::InstallSnapshot() {
  const MutexLock file(file_mutex_);
  ClusterSnapshot fetched;
  {
    const MutexLock lock(mutex_);
    fetched = fetched_;
    if (fetched.index <= now_.index) return Status::Ok();
  }
  return Publish(std::move(fetched));
}

void ClusterGroup::Fail(const Status& why) {
  const MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = why;
  changed_.NotifyAll();
}

void ClusterGroup::Close() {
  if (!worker_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  worker_.join();
  site_.Leave(options_.group);
}

}  // namespace topicdb::replication
