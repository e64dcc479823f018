#include "replication/replica/leader_link.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "replication/deadline.h"

namespace topicdb::replication {

namespace {

using std::chrono::milliseconds;

// A message between sites has at most 8 MiB; see raft/src/link.rs.
constexpr std::size_t kMessageBytesMax = std::size_t{7} << 20;
// A call that is larger is fetched in parts of this size.
constexpr std::uint64_t kPartBytes = std::uint64_t{4} << 20;
// One that is larger than what an append may have is none.
constexpr std::uint64_t kStoredBytesMax = std::uint64_t{3} << 30;
// How long the leader waits for a part.
constexpr milliseconds kPartPatience(10'000);
// How long a replica waits for a connection before it looks again who leads.
constexpr milliseconds kConnectPatience(200);
// How long it waits before it asks again.
constexpr milliseconds kAskAgainAfter(20);

}  // namespace

// A call that is too large for a message waits here until it is over.
class LeaderLink::Stored {
 public:
  Stored(LeaderLink* link, std::string_view call) : link_(*link) {
    LeaderCall stored;
    stored.kind = LeaderCallKind::kStored;
    stored.stored.replica = link_.site_.replica();
    stored.stored.bytes = call.size();
    {
      const MutexLock lock(link_.mutex_);
      number_ = ++link_.last_number_;
      link_.stored_[number_] = call;
    }
    stored.stored.number = number_;
    call_ = Encode(stored);
  }
  ~Stored() {
    const MutexLock lock(link_.mutex_);
    link_.stored_.erase(number_);
  }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  const std::string& call() const { return call_; }

 private:
  LeaderLink& link_;
  std::uint64_t number_ = 0;
  std::string call_;
};

Result<LeaderAnswer> LeaderLink::Call(std::string_view call, Clock::time_point deadline) {
  std::optional<Stored> stored;
  if (call.size() > kMessageBytesMax + kMessageBytesMax / 16) {
    stored.emplace(this, call);
    call = stored->call();
  }
  for (;;) {
    TOPICDB_RETURN_IF_ERROR(parts_.standing());
    const std::uint64_t leader = parts_.leader();
    Status why;
    if (leader == 0 || leader == site_.replica()) {
      const auto led = parts_.lead(LeftUntil(deadline));
      if (led.ok()) return NotLeader(name_ + ": this replica leads by now");
      why = led.status();
      if (why.code() != Code::kNotLeader) return why;
    } else {
      auto answer = CallAt(leader, call, deadline);
      if (answer.ok() || answer.status().code() != Code::kNotLeader) return answer;
      why = answer.status();
    }
    if (Clock::now() >= deadline) {
      return NotLeader(name_ + ": no replica has come to lead within " +
                       std::to_string(patience_.count()) +
                       " ms: a majority of the replicas must be up");
    }
    if (leader != 0) std::this_thread::sleep_for(kAskAgainAfter);
  }
}

Result<LeaderAnswer> LeaderLink::CallUntilAnswered(const LeaderCall& call,
                                                   Clock::time_point deadline) {
  const std::string bytes = Encode(call);
  for (;;) {
    auto answer = Call(bytes, deadline);
    if (answer.status().code() != Code::kUnknownOutcome || Clock::now() >= deadline) return answer;
    std::this_thread::sleep_for(kAskAgainAfter);
  }
}

Result<LeaderAnswer> LeaderLink::CallAt(std::uint64_t leader, std::string_view call,
                                        Clock::time_point deadline) {
  const auto answer = site_.Ask(leader, group_, call, LeftUntil(deadline), kConnectPatience);
  // Nobody has acted upon a request that the other site does not answer.
  if (answer.status().code() == Code::kNotFound) return NotLeader(answer.status().message());
  TOPICDB_RETURN_IF_ERROR(answer.status().WithContext(name_));
  auto decoded = DecodeLeaderAnswer(*answer);
  if (!decoded.ok()) return UnknownOutcome(name_ + ": " + decoded.status().message());
  parts_.await_applied(decoded->index, LeftUntil(deadline));
  TOPICDB_RETURN_IF_ERROR(decoded->status);
  return decoded;
}

void LeaderLink::Commit(std::span<ShardCommit* const> group, Clock::time_point deadline) {
  while (!group.empty()) {
    const std::size_t done = CommitRun(group, deadline);
    const Status& last = group[done - 1]->status;
    group = group.subspan(done);
    if (last.code() != Code::kNotLeader) continue;
    for (ShardCommit* commit : group) commit->status = last;  // they come behind it again
    return;
  }
}

std::size_t LeaderLink::CommitRun(std::span<ShardCommit* const> group, Clock::time_point deadline) {
  // What was withdrawn is over, so that what is left was claimed.
  ShardCommit* const first = group.front();
  if (first->claim != nullptr && !first->claim->Take()) {
    first->status = Closed("this commit was withdrawn before it was applied: nothing is stored");
    return 1;
  }
  if (first->staged != nullptr) {
    first->status = ReadOnly(name_ + ": a job cannot be committed to a replicated database");
    return 1;
  }
  std::size_t may_go = 1;
  while (may_go < group.size() && group[may_go]->staged == nullptr &&
         (group[may_go]->claim == nullptr || group[may_go]->claim->Take())) {
    ++may_go;
  }
  std::size_t count = 0;
  const std::string call = EncodeCommits(group.first(may_go), kMessageBytesMax, &count);
  const auto sent = group.first(count);
  for (ShardCommit* commit : sent) commit->status = UnknownOutcome({});  // if memory is short now
  Result<LeaderAnswer> answer = Call(call, deadline);
  if (answer.ok() && answer->outcomes.size() != count) {
    answer = UnknownOutcome(name_ + ": the leader has answered for other commits");
  }
  for (std::size_t i = 0; i < count; ++i) {
    ShardCommit* const commit = sent[i];
    commit->written = false;
    if (!answer.ok()) {
      commit->status = answer.status();
      continue;
    }
    LeaderAnswer::Outcome& outcome = answer->outcomes[i];
    commit->status = std::move(outcome.status);
    commit->serial = outcome.serial;
    commit->deleted = outcome.deleted;
    commit->repeated = outcome.repeated;
    commit->fault = std::move(outcome.fault);
    if (!commit->status.ok()) continue;
    commit->written = true;
    if (commit->claim != nullptr) commit->claim->NoteStored();
  }
  return count;
}

Status LeaderLink::BeginTransaction(Clock::time_point deadline) {
  LeaderCall call;
  call.kind = LeaderCallKind::kBegin;
  return CallUntilAnswered(call, deadline).status();
}

Result<std::optional<KnownAppend>> LeaderLink::FindAppend(std::string_view id,
                                                          Clock::time_point deadline) {
  LeaderCall call;
  call.kind = LeaderCallKind::kFindAppend;
  call.id = id;
  TOPICDB_ASSIGN_OR_RETURN(const LeaderAnswer answer, CallUntilAnswered(call, deadline));
  return answer.known;
}

Status LeaderLink::Rotate(const RotateOptions& options, Clock::time_point deadline) {
  LeaderCall call;
  call.kind = LeaderCallKind::kRotate;
  call.rotate = options;
  return Call(Encode(call), deadline).status();
}

Status LeaderLink::DropSlab(RetentionClassId retention_class, Generation generation,
                            Clock::time_point deadline) {
  LeaderCall call;
  call.kind = LeaderCallKind::kDropSlab;
  call.retention_class = retention_class;
  call.generation = generation;
  return Call(Encode(call), deadline).status();
}

Status LeaderLink::Stage(const StagingStep& step, Clock::time_point deadline) {
  LeaderCall call;
  call.kind = LeaderCallKind::kStage;
  call.stage = step;
  return Call(Encode(call), deadline).status();
}

Status LeaderLink::SealAll(Clock::time_point deadline) {
  LeaderCall call;
  call.kind = LeaderCallKind::kSealAll;
  const Status sealed = CallUntilAnswered(call, deadline).status();
  // An older version does not know the call. It seals by itself.
  return sealed.code() == Code::kSchema ? UnknownOutcome(sealed.message()) : sealed;
}

Result<std::string> LeaderLink::Answer(std::string_view request) {
  auto decoded = DecodeLeaderCall(request);
  if (!decoded.ok()) return Encode(LeaderAnswer{decoded.status(), {}, {}, {}});
  LeaderCall& call = *decoded;
  if (call.kind == LeaderCallKind::kPart) return PartOf(call.stored);
  std::string stored;  // the commits of the call refer to it
  if (call.kind == LeaderCallKind::kStored) {
    // Whoever does not lead need not fetch it.
    if (const auto led = parts_.lead(milliseconds(0)); !led.ok()) return led.status();
    TOPICDB_ASSIGN_OR_RETURN(stored, FetchStored(call.stored));
    TOPICDB_ASSIGN_OR_RETURN(call, DecodeLeaderCall(stored));
  }
  LeaderAnswer answer = Serve(call);
  std::string bytes = Encode(answer);
  if (bytes.size() <= kMessageBytesMax) return bytes;
  // The values that a transaction has found in place of others are large. The text says enough.
  for (LeaderAnswer::Outcome& outcome : answer.outcomes) outcome.fault = {};
  return Encode(answer);
}

LeaderAnswer LeaderLink::Serve(const LeaderCall& call) {
  LeaderAnswer answer;
  const auto led = parts_.lead(milliseconds(0));
  if (!led.ok()) {  // another one leads, or will: this one may have failed
    answer.status = NotLeader(led.status().message());
    return answer;
  }
  Shard& shard = **led;
  switch (call.kind) {
    case LeaderCallKind::kCommit:
      ServeCommits(call, &shard, &answer);
      break;
    case LeaderCallKind::kBegin:
      answer.status = shard.BeginElsewhere();
      break;
    case LeaderCallKind::kFindAppend:
      answer.known = shard.FindAppendHere(call.id);
      answer.status = shard.MayWrite();
      break;
    case LeaderCallKind::kRotate:
      answer.status = shard.RotateHere(call.rotate);
      break;
    case LeaderCallKind::kDropSlab:
      answer.status = shard.DropSlabHere(call.retention_class, call.generation);
      break;
    case LeaderCallKind::kStage:
      answer.status = shard.StageHere(call.stage);
      // What a disk has failed to take here, others may have.
      if (answer.status.code() == Code::kStorage) {
        answer.status = UnknownOutcome(answer.status.message());
      }
      break;
    case LeaderCallKind::kSealAll:
      answer.status = shard.SealAllHere();
      break;
    case LeaderCallKind::kStored:
    case LeaderCallKind::kPart:
      answer.status = InvalidArgument(name_ + ": a call that was fetched is no call");
      break;
  }
  answer.index = parts_.applied();
  return answer;
}

void LeaderLink::ServeCommits(const LeaderCall& call, Shard* shard, LeaderAnswer* answer) {
  std::vector<TransactionOps> transactions(call.commits.size());
  std::vector<std::unique_ptr<ShardCommit>> commits;
  std::vector<ShardCommit*> group;
  for (const SentCommit& sent : call.commits) {
    ShardCommit& commit = *commits.emplace_back(std::make_unique<ShardCommit>());
    group.push_back(&commit);
    commit.durability = Durability::kQuorum;
    commit.bytes = sent.bytes;
    commit.messages = sent.messages;
    if (sent.id.has_value()) commit.id = &*sent.id;
    if (!sent.transaction.has_value()) continue;
    TransactionOps& ops = transactions[commits.size() - 1];
    ops = *sent.transaction;
    commit.transaction = &ops;
  }
  shard->CommitHere(group);
  for (ShardCommit* commit : group) {
    // What a disk has failed to take here, others may have.
    if (commit->status.code() == Code::kStorage) {
      commit->status = UnknownOutcome(commit->status.message());
    }
    answer->outcomes.push_back({std::move(commit->status), commit->serial, commit->deleted,
                                commit->repeated, std::move(commit->fault)});
  }
}

Result<std::string> LeaderLink::FetchStored(const StoredCall& stored) {
  if (stored.bytes > kStoredBytesMax) {
    return Corruption(name_ + ": a call of " + std::to_string(stored.bytes) + " bytes");
  }
  std::string bytes;
  while (bytes.size() < stored.bytes) {
    LeaderCall part;
    part.kind = LeaderCallKind::kPart;
    part.stored = {stored.replica, stored.number,
                   std::min<std::uint64_t>(kPartBytes, stored.bytes - bytes.size()), bytes.size()};
    TOPICDB_ASSIGN_OR_RETURN(const std::string found,
                             site_.Ask(stored.replica, group_, Encode(part), kPartPatience));
    if (found.size() != part.stored.bytes) return Corruption(name_ + ": a part of a call is short");
    bytes += found;
  }
  return bytes;
}

Result<std::string> LeaderLink::PartOf(const StoredCall& part) const {
  const MutexLock lock(mutex_);
  const auto found = stored_.find(part.number);
  if (part.replica != site_.replica() || found == stored_.end() ||
      part.offset > found->second.size()) {
    return NotFound(name_ + ": nobody waits for this call any more");
  }
  return std::string(found->second.substr(part.offset, std::min(part.bytes, kPartBytes)));
}

}  // namespace topicdb::replication
