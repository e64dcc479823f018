// The files of jobs, in the directory `jobs` of a database; docs/format.md draws them.
//
//   jobs/<job>/                    what its tasks have staged
//   jobs/<time>-<job>.intent       the job is committed; its shards apply intents in this order
//   jobs/<time>-<job>.shard-0003   what shard 3 has made of it, durably
//
// When every shard has applied an intent, its files go: the job's directory, then the intent, then
// the rest. All of it may be interrupted and done again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/types/iterator.h"
#include "topicdb/status.h"

namespace topicdb {

std::string JobsDirectory(const std::string& path);
std::string JobDirectory(const std::string& path, const std::string& job);
// kInvalidArgument unless a job may have this name.
Status CheckJobName(const std::string& job);
// Makes the directory of a job and gives its path.
Result<std::string> MakeJobDirectory(const std::string& path, const std::string& job);

struct JobIntent {
  DatabaseId database{};
  std::string job;
  std::string sequence;
  std::uint64_t number = 0;
  std::vector<std::uint32_t> shards;  // that have messages of it, sorted
  std::vector<std::string> files;     // staged, in the job's directory
  std::uint64_t messages = 0;
  std::uint64_t malformed = 0;

  std::string name;  // of its file, without ".intent"; not stored
};
std::string EncodeIntent(const JobIntent& intent);
// `path` is for messages. kCorruption.
Result<JobIntent> DecodeIntent(std::string_view bytes, const std::string& path);

// What a shard has made of an intent.
struct ShardOutcome {
  std::uint64_t serial = 0;  // the last of the job; of an earlier one if it was repeated
  bool repeated = false;
};
std::string EncodeOutcome(const ShardOutcome& outcome);
bool DecodeOutcome(std::string_view bytes, ShardOutcome* outcome);

// As the name of its file says.
std::int64_t CommittedAtUs(const JobIntent& intent);

// The commit point of a job. Fills intent->name.
Status WriteIntent(const std::string& path, JobIntent* intent);
// In the order in which they are to be applied. kCorruption.
Result<std::vector<JobIntent>> ListIntents(const std::string& path);
// Absent: the shard has not applied it.
Result<std::optional<ShardOutcome>> FindOutcome(const std::string& path, const JobIntent& intent,
                                                std::uint32_t shard);
Status WriteOutcome(const std::string& path, const JobIntent& intent, std::uint32_t shard,
                    const ShardOutcome& outcome);
// Whether every shard has applied it; fills `outcomes` with those that have.
Result<bool> IsApplied(const std::string& path, const JobIntent& intent,
                       std::map<std::uint32_t, ShardOutcome>* outcomes);
// Removes the files of an intent that every shard has applied.
Status RemoveApplied(const std::string& path, const JobIntent& intent);
bool HasIntent(const std::string& path, const JobIntent& intent);
// Removes what a process has left behind that ended: files of intents that every shard has applied
// a minute ago or earlier; what jobs have staged that have no intent, if it was not touched for six
// hours; outcomes of intents that are gone.
Status SweepJobs(const std::string& path, std::int64_t now_us);

}  // namespace topicdb
