// The files of jobs, in the directory `jobs` of a database; docs/internals/format.md draws them.
//
//   jobs/<job>/                    what the job's tasks have staged
//   jobs/<time>-<job>.intent       the job is committed; shards apply intents in this order
//   jobs/<time>-<job>.shard-0003   the durable outcome of the intent in shard 3
//
// When every shard has applied an intent, its files are removed: the job's directory, then the
// intent, then the outcomes. Every one of these steps may be interrupted and done again.
//
// Any thread of any process may call these functions. In all of them, `path` is that of the
// database, unless they say something else.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/files.h"
#include "topicdb/job.h"
#include "topicdb/status.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/times.h"

namespace topicdb {

std::string JobsDirectory(const std::string& path);
std::string JobDirectory(const std::string& path, const std::string& job);
// Returns kInvalidArgument unless a job may have this name.
Status CheckJobName(const std::string& job);
// Returns kInvalidArgument unless a commit has names, numbers and files that a job can have. The
// name of the file of a task without messages is empty.
Status CheckJobCommit(const JobCommit& commit);
// Makes the directory of a job and returns its path.
Result<std::string> MakeJobDirectory(const std::string& path, const std::string& job);

// What an intent file says about a committed job.
struct JobIntent {
  DatabaseId database{};
  std::string job;
  std::string sequence;
  std::uint64_t number = 0;
  std::vector<std::uint32_t> shards;  // that have messages of the job, sorted
  std::vector<std::string> files;     // staged files in the job's directory
  std::uint64_t messages = 0;
  std::uint64_t malformed = 0;

  std::string name;  // of the intent file, without ".intent"; not stored in it
};
std::string EncodeIntent(const JobIntent& intent);
// Returns the intent that these bytes encode, without its name. Errors name `path`, which is that
// of the file. Returns kCorruption for damaged bytes.
Result<JobIntent> DecodeIntent(std::string_view bytes, const std::string& path);

// The outcome of an intent in one shard.
struct ShardOutcome {
  // The last commit of the job in the shard. If `repeated`, the last commit of an earlier try, or
  // of a later job of the sequence.
  Serial serial;
  bool repeated = false;  // the shard had applied the job before
};
std::string EncodeOutcome(const ShardOutcome& outcome);
bool DecodeOutcome(std::string_view bytes, ShardOutcome* outcome);

// Returns when the job was committed, as the name of its file says.
WallTime CommittedAt(const JobIntent& intent);

// Keeps other processes from committing a job, and from removing what a job has staged, as long as
// the result lives. Waits for at most `patience` for whoever does so, and then returns kLocked.
Result<std::unique_ptr<FileLock>> LockJobs(const std::string& path,
                                           std::chrono::microseconds patience);

// Writes the intent file, durably. The job is committed once the file has its name. Sets
// intent->name.
Status WriteIntent(const std::string& path, JobIntent* intent);
// Returns the intents in the order in which shards must apply them. Returns kCorruption if one is
// damaged.
Result<std::vector<JobIntent>> ListIntents(const std::string& path);
// Returns the outcome of an intent in a shard. Absent if the shard has not applied the intent, or
// if the file of the outcome is damaged: the shard then finds that it has applied the job.
Result<std::optional<ShardOutcome>> FindOutcome(const std::string& path, const JobIntent& intent,
                                                std::uint32_t shard);
// Writes the outcome of an intent in a shard, durably.
Status WriteOutcome(const std::string& path, const JobIntent& intent, std::uint32_t shard,
                    const ShardOutcome& outcome);
// Returns whether every shard has applied the intent. Adds the outcomes of those that have to
// `outcomes`.
Result<bool> IsApplied(const std::string& path, const JobIntent& intent,
                       std::map<std::uint32_t, ShardOutcome>* outcomes);
// Removes the files of an intent that every shard has applied. What the job has staged stays while
// there is another intent of the job.
// REQUIRES (RemoveApplied): the caller has LockJobs, as another process may check these files to
// commit the job again
Status RemoveApplied(const std::string& path, const JobIntent& intent);
// Returns whether the intent file is still there.
bool HasIntent(const std::string& path, const JobIntent& intent);
// Removes the files that processes have left behind when they ended: the files of intents that
// every shard has applied a minute ago or earlier, and outcomes of intents that are gone. Also
// removes what a job without an intent has staged, if nobody has touched it for six hours. Does
// nothing while another process has LockJobs: the next opening does it.
Status SweepJobs(const std::string& path, WallTime now);

}  // namespace topicdb
