// The log that the replicas of a shard share.
#pragma once

#include <cstdint>
#include <string>

#include "replication/entry.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// Where an entry is in a log.
struct LogPlace {
  std::uint64_t index = 0;  // counts the entries of the log from 1
  std::uint64_t term = 0;   // that of the leader that has put the entry there
  bool operator==(const LogPlace&) const = default;
};

// Keeps the entries of one shard in one order, which is the same in all replicas. Whoever makes it
// owns it, and it outlives the ReplicatedShardLog that writes to it. Thread-safe.
class ReplicatedLog {
 public:
  ReplicatedLog() = default;
  virtual ~ReplicatedLog() = default;
  ReplicatedLog(const ReplicatedLog&) = delete;
  ReplicatedLog& operator=(const ReplicatedLog&) = delete;

  // Adds an entry. Returns its place once the log will never lose it, and nothing before it keeps
  // it from being applied. An entry that is too large becomes several; then the place is that of
  // the last one. Returns kNotLeader if the entry never will be applied, and kUnknownOutcome if it
  // may be. After an error, it takes no more entries.
  virtual Result<LogPlace> Propose(const Entry& entry) = 0;
  // Says that the entry that Propose has put at `place` is applied here.
  virtual void NoteApplied(const LogPlace& place) = 0;
  // Says that the entry that Propose has put somewhere could not be applied here, so that this
  // replica must not lead. It takes no more entries.
  virtual void NoteFailed(const Status& why) = 0;
  // Returns Ok, or why this replica leads no more.
  virtual Status MayWrite() const = 0;
};

}  // namespace topicdb::replication
