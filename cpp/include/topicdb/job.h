// Jobs: many processes stage messages at the same time, and one commit makes all of them part of
// the database, or none. Made for systems such as Spark; docs/jobs.md has the protocol.
//
// A job has a name. Its tasks stage messages (StagedWriter) in files beside the shards, without
// opening or locking a shard. CommitJob then writes an *intent*. Once that file has its name, the
// job is committed, whatever happens. Each shard then applies the intent: in this process, or in
// the process that has the shard open for writing.
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

namespace topicdb {

// What a task has staged.
struct StagedTask {
  std::string file;  // its name in the job's directory; empty if there were no messages
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;      // of topics and values
  std::uint64_t malformed = 0;  // messages that were left out
};

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

  // Copies the messages. Returns the errors of Database::Append, and has staged none of `messages`
  // then. After kStorage the writer is of no use any more.
  Status Append(std::span<const MessageView> messages);
  // Makes everything that was appended durable, and returns what the task has staged.
  Result<StagedTask> Finish();

 private:
  class Impl;
  explicit StagedWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct JobCommit {
  std::string job;
  std::vector<std::string> files;  // StagedTask::file of the tasks whose messages count
  // If a job of this sequence was committed with this number or a larger one, the commit does
  // nothing. So a batch that is repeated is stored once. The name follows the rules of job names;
  // empty: no sequence. Numbers count from 1.
  std::string sequence;
  std::uint64_t number = 0;
  std::uint64_t malformed = 0;  // messages that the tasks left out, to be noted with the job
  // How long the commit waits for processes that have shards open.
  std::chrono::microseconds timeout{60'000'000};
};

struct JobReceipt {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> serials;  // the last serial, by shard
  std::uint64_t messages = 0;
  // Shards that another process has open and that have not applied the job yet. That process will
  // apply it, or whoever opens the shards next: the job is committed.
  std::vector<std::uint32_t> pending;
  bool repeated = false;  // the job was committed before
};

// Commits a job. If this fails, either it has had no effect (kCorruption: files are damaged or
// missing), or the error says that the job is committed and what is wrong. May be repeated in any
// case.
Result<JobReceipt> CommitJob(const std::string& path, const JobCommit& commit);

// The last job of a sequence that a shard has applied.
struct JobInfo {
  std::uint32_t shard = 0;
  std::string sequence;
  std::uint64_t number = 0;  // 0: `sequence` is the name of a job that has no sequence
  std::uint64_t first_serial = 0;
  std::uint64_t last_serial = 0;
  std::uint64_t messages = 0;   // in this shard
  std::uint64_t malformed = 0;  // of the whole job
  std::int64_t applied_at_us = 0;
};

// Removes what a job has staged, whether it was committed or not, except what a commit still needs.
Status AbortJob(const std::string& path, const std::string& job);

}  // namespace topicdb
