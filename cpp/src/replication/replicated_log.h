// The log that the replicas of a shard share.
#pragma once

#include <cstdint>
#include <string>

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

  // Adds an entry, and returns its place once the log will never lose it. Returns kStorage if it is
  // not known whether the log has the entry.
  virtual Result<LogPlace> Propose(std::string entry) = 0;
};

}  // namespace topicdb::replication
