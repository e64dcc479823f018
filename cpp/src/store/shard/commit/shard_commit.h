// What callers hand to a shard: messages to append, what a transaction reads and deletes, or what a
// job has staged.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commit/append_ids.h"
#include "commit/commit_queue.h"
#include "store/job/staged_file.h"
#include "store/shard/commit/commit_claim.h"
#include "topicdb/message.h"
#include "topicdb/transaction.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/times.h"

namespace topicdb {

class Slab;
namespace rocks {
class ShardLog;
}  // namespace rocks

// A message that must be stored, or absent, for a transaction to be applied.
struct Requirement {
  std::string topic;
  std::int64_t timestamp = 0;
  std::optional<std::string> value;  // absent: no message, or any message
  bool any_value = false;            // there must be a message, whatever its value

  // Returns whether this value, or no message, meets the requirement.
  bool IsMetBy(const std::optional<std::string>& found) const {
    return any_value ? found.has_value() : found == value;
  }
};

// The part of a commit that looks at what is stored. Deletes come before the messages.
struct TransactionOps {
  // The serial of the view that the transaction has read; absent: nothing can conflict with it.
  std::optional<Serial> start_serial;
  std::chrono::steady_clock::time_point begun;
  std::optional<Generation> generation;  // what it reads, deletes and writes; absent: any
  std::vector<KeyRange> reads;
  std::vector<KeyRange> deletes;
  std::vector<Requirement> requirements;
  std::vector<bool> is_serial;  // by message: its value is the serial; empty: none is
};

// What a job has staged for a shard. It is a commit of its own, with a serial for each block.
struct StagedMessages {
  std::string directory;  // of the files; of what is staged in the shard itself, its name
  std::string sequence;
  std::uint64_t number = 0;
  std::uint64_t malformed = 0;
  WallTime committed_at;
  WallTime pending_since;             // of the oldest job that some shard has yet to apply
  std::vector<std::uint32_t> shards;  // that have messages of the job
  std::vector<StagedPart> parts;
  // Of what is staged in the shard itself, whose replicas all have it: the job, where the pages of
  // a part are, and the slab of each class into which the pages were copied, unless it has no log.
  // The log by which they were copied is that of one reign.
  std::string job;
  std::function<KeySource(const StagedPart& part)> pages;  // else empty
  std::map<RetentionClassId, std::shared_ptr<Slab>> copied;
  std::shared_ptr<rocks::ShardLog> log;
};

// One commit to a shard, and its outcome. The caller owns it, or gives it to the queue
// (Shard::CommitAsync). While the commit is under way, only the committer may use it.
struct ShardCommit : QueuedCommit {
  std::span<const MessageView> messages;   // valid, and of this shard
  TransactionOps* transaction = nullptr;   // optional, borrowed
  const StagedMessages* staged = nullptr;  // instead of both, borrowed
  const AppendId* id = nullptr;            // optional, borrowed
  std::shared_ptr<CommitClaim> claim;      // optional: the commit may be withdrawn while it waits
  // The outcome, with `status` of QueuedCommit.
  Serial serial;
  std::uint64_t deleted = 0;  // messages that were removed
  bool hides = false;         // deletes must still be finished: Shard::FinishDeletes
  // The job, or the append with this id, was stored before. `serial` is then its last serial.
  bool repeated = false;
  CommitFault fault;
};

}  // namespace topicdb
