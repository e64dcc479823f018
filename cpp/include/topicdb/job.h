// Jobs: many processes stage messages at the same time, and one commit makes all of them part of
// the database, or none. Made for systems such as Spark; docs/concepts/jobs.md has the protocol.
//
// A job has a name. Its tasks stage messages (StagedWriter) in files beside the shards, without
// opening or locking a shard. CommitJob then writes an *intent*. Once that file has its name, the
// job is committed, whatever happens. Each shard then applies the intent: in this process, or in
// the process that has the shard open for writing.
//
// All functions here are thread-safe, and any process may call them while others have the database
// open.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/times.h"

namespace topicdb {

// What a task has staged.
struct StagedTask {
  std::string file;  // its name in the job's directory; empty if there were no messages
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;      // of topics and values
  std::uint64_t malformed = 0;  // messages that were left out
};

// How a StagedWriter works.
struct StageOptions {
  // The writer holds this many bytes of messages before it writes the largest part of them.
  std::size_t memory_bytes_max = std::size_t{64} << 20;
  // Leaves out and counts messages that no append would take, instead of failing.
  bool drop_malformed = false;
};

// Stages the messages of one attempt of one task. The caller of Open owns it. Thread-safe.
class StagedWriter {
 public:
  // Opens a writer for a job of the database at `path`. `job` has at most 128 letters, digits, '-',
  // '_' and '.'. All tasks of a job give the same name, and no other job has it. Any number of
  // attempts may run at the same time. Returns kNotFound or kInvalidArgument.
  static Result<std::unique_ptr<StagedWriter>> Open(const std::string& path, const std::string& job,
                                                    const StageOptions& options);
  // Removes the files that the writer has written, unless Finish succeeded.
  ~StagedWriter();
  StagedWriter(const StagedWriter&) = delete;
  StagedWriter& operator=(const StagedWriter&) = delete;

  // Copies the messages. `keys` are as in Database::Append. Returns the errors of that, and has
  // staged none of `messages` then. After kStorage the writer is of no use any more.
  Status Append(std::span<const MessageView> messages, const MessageKeys& keys = {});
  // Makes everything that was appended durable, and returns what the task has staged. No messages
  // can be appended after that.
  Result<StagedTask> Finish();

 private:
  class Impl;
  explicit StagedWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A job that is to be committed.
struct JobCommit {
  std::string job;
  std::vector<std::string> files;  // StagedTask::file of the tasks whose messages count
  // If a job of this sequence was committed with this number or a larger one, the commit stores
  // nothing. So a batch that is repeated is stored once. The name follows the rules of job names.
  // Numbers count from 1. A job without a sequence has an empty name and the number 0.
  std::string sequence;
  std::uint64_t number = 0;
  std::uint64_t malformed = 0;  // messages that the tasks left out, to be noted with the job
  // The commit waits for at most this long for processes that have shards open.
  std::chrono::microseconds timeout{60'000'000};
};

// What CommitJob did.
struct JobReceipt {
  // The last serial of the job in each shard that has applied it, by shard. It is kNoSerial if
  // another process has removed the files of the applied job before this one could read the serial.
  std::vector<std::pair<std::uint32_t, Serial>> serials;
  std::uint64_t messages = 0;
  // Shards that another process has open and that have not applied the job yet. That process will
  // apply it, or whoever opens the shards next: the job is committed.
  std::vector<std::uint32_t> pending;
  // The job was committed before, or a later one of its sequence. This call has stored nothing.
  bool repeated = false;
};

// Commits a job. Returns once every shard with messages of the job has applied it, or the timeout
// of the commit is over. May be repeated in any case, also while another process commits the same
// job. Returns the receipt of a repeated job if an intent of the job is there, or if staged files
// are gone or damaged and the shards remember the job (Database::Jobs).
//
// Returns kInvalidArgument for names and numbers that no job can have, for names that are no names
// of staged files or come twice, and for a job that is too large for generations with the layout
// skipstream. Returns kNotFound if there is no database, or if a staged file is missing. Returns
// kCorruption if a staged file is damaged or belongs to another database, or if a file with its
// pages is missing or cut off. Returns kSchema for a newer format, and kLocked if another process
// commits or aborts jobs for all of the timeout. After these errors the job is not committed. An
// error that occurs once the job is committed says that it is, and what is wrong.
Result<JobReceipt> CommitJob(const std::string& path, const JobCommit& commit);

// The last job of a sequence that a shard has applied.
struct JobInfo {
  std::uint32_t shard = 0;
  std::string sequence;
  std::uint64_t number = 0;  // 0: `sequence` is the name of a job that has no sequence
  Serial first_serial;
  Serial last_serial;
  std::uint64_t messages = 0;   // in this shard
  std::uint64_t malformed = 0;  // of the whole job
  WallTime applied_at;
};

// Removes what a job has staged. Does nothing while there is an intent of the job: the job is then
// committed, shards may still need its files, and these go once every shard has applied it. It is
// no error if there is nothing to remove. May be called while another process commits the job: one
// of the two then comes first. Returns kLocked if another process commits jobs for all of
// `timeout`.
Status AbortJob(const std::string& path, const std::string& job,
                std::chrono::microseconds timeout = std::chrono::minutes(1));

}  // namespace topicdb
