// Jobs in a database whose shards are replicas.
#pragma once

#include <chrono>
#include <string>

#include "topicdb/job.h"
#include "topicdb/status.h"

namespace topicdb {

// Commits jobs to shards that have replicas. The ShardSource of the database owns it. Thread-safe.
class ReplicatedJobs {
 public:
  ReplicatedJobs() = default;
  virtual ~ReplicatedJobs() = default;
  ReplicatedJobs(const ReplicatedJobs&) = delete;
  ReplicatedJobs& operator=(const ReplicatedJobs&) = delete;

  // Brings what a task has staged in the directory of the database to the shards, and removes the
  // files. May be repeated. Does what Database::ShareStaged says.
  virtual Status Share(const std::string& job, const std::string& file) = 0;
  // These do what Database::CommitJob and Database::AbortJob say.
  virtual Result<JobReceipt> Commit(const JobCommit& commit) = 0;
  virtual Status Abort(const std::string& job, std::chrono::microseconds timeout) = 0;
};

}  // namespace topicdb
