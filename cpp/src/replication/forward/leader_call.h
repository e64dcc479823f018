// What a replica that follows asks of the one that leads, and the answers. Only this file and
// leader_call.cc know the bytes, which docs/internals/format.md draws.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/job/staged_job.h"
#include "store/shard/commit/shard_commit.h"
#include "store/shard/commit/shard_leader.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb::replication {

enum class LeaderCallKind : std::uint8_t {
  kCommit = 1,
  kBegin = 2,
  kFindAppend = 3,
  kRotate = 4,
  kDropSlab = 5,
  kStored = 6,  // a call that is too large for a message: the leader fetches it in parts
  kPart = 7,    // the leader fetches one
  kStage = 8,
  kSealAll = 9,
};

// A commit as it was sent. Its texts refer to the bytes of the call.
struct SentCommit {
  std::vector<MessageView> messages;
  std::optional<AppendId> id;
  std::optional<TransactionOps> transaction;
  std::uint64_t bytes = 0;  // memory that it takes
};

// A call that waits at the replica that made it, and the part of it that is asked for.
struct StoredCall {
  std::uint64_t replica = 0;
  std::uint64_t number = 0;  // of the call, at this replica
  std::uint64_t bytes = 0;   // of kStored: of the whole call; of kPart: of the part
  std::uint64_t offset = 0;  // of kPart
};

// A call. Only the members of its kind are set.
struct LeaderCall {
  LeaderCallKind kind = LeaderCallKind::kCommit;
  std::vector<SentCommit> commits;
  std::string id;        // of kFindAppend
  RotateOptions rotate;  // of kRotate
  RetentionClassId retention_class;
  Generation generation;  // of kDropSlab, with the class
  StoredCall stored;
  StagingStep stage;  // of kStage
};

// Returns whether these bytes begin as a call does, and not as another request between replicas.
bool IsLeaderCall(std::string_view bytes);

// Returns the call that hands over these commits, without what they were told to be when they are
// durable: in a shard with replicas, all are. The first commits are in it whose bytes together are
// at most `bytes_max`, or the first one alone; `count` is how many these are.
// REQUIRES: `commits` is not empty, and none of them is of a job
std::string EncodeCommits(std::span<ShardCommit* const> commits, std::size_t bytes_max,
                          std::size_t* count);
// Returns a call without commits.
std::string Encode(const LeaderCall& call);
// Returns kCorruption for bytes that neither has made, and kSchema for a call of a later version of
// TopicDB.
Result<LeaderCall> DecodeLeaderCall(std::string_view bytes);

// How a call has ended. Only the members of its kind are set.
struct LeaderAnswer {
  Status status;
  // Of kCommit: how each commit has ended, in the order of the call. Only what a committer sets in
  // a commit.
  struct Outcome {
    Status status;
    Serial serial;
    std::uint64_t deleted = 0;
    bool repeated = false;
    CommitFault fault;
  };
  std::vector<Outcome> outcomes;
  // A replica that has applied the log up to this entry sees what the call has done, and what was
  // there before it.
  std::uint64_t index = 0;
  std::optional<KnownAppend> known;  // of kFindAppend
};

std::string Encode(const LeaderAnswer& answer);
// Returns what DecodeLeaderCall returns.
Result<LeaderAnswer> DecodeLeaderAnswer(std::string_view bytes);

}  // namespace topicdb::replication
