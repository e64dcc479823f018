// Jobs: many processes prepare messages at once, and one commit makes all of them part of the
// database, or none. For Spark and the like; docs/jobs.md has the protocol.
//
// A job has a name. Its tasks stage messages (StagedWriter), in files beside the shards, without
// opening or locking one. CommitJob then writes an *intent*: when that file has its name, the job
// is committed, whatever happens; each shard applies it, in this process or, where another one has
// the shard open for writing, in that.
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
  // What it holds of messages before it writes them; their largest may be larger.
  std::size_t memory_bytes_max = std::size_t{64} << 20;
  // Messages that no append would take are left out and counted, instead of failing.
  bool drop_malformed = false;
};

// Stages the messages of one attempt of one task. Thread-safe.
class StagedWriter {
 public:
  // job: letters, digits, '-', '_', '.', at most 128; the same in all tasks of a job, and in no
  // other job. Any number of attempts may run at the same time. kNotFound, kInvalidArgument.
  static Result<std::unique_ptr<StagedWriter>> Open(const std::string& path, const std::string& job,
                                                    const StageOptions& options);
  // Without Finish, removes what it has written.
  ~StagedWriter();
  StagedWriter(const StagedWriter&) = delete;
  StagedWriter& operator=(const StagedWriter&) = delete;

  // Copies the messages. Errors as of Database::Append, and nothing of `messages` is staged then.
  // kStorage makes it useless.
  Status Append(std::span<const MessageView> messages);
  // Makes all of it durable.
  Result<StagedTask> Finish();

 private:
  class Impl;
  explicit StagedWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct JobCommit {
  std::string job;
  std::vector<std::string> files;  // StagedTask::file of the tasks whose messages count
  // If a job of the same sequence was committed with this number (from 1) or a larger one, nothing
  // is done: so a batch that is repeated is stored once. A name as of a job. Empty: none.
  std::string sequence;
  std::uint64_t number = 0;
  std::uint64_t malformed = 0;  // messages that its tasks left out, to be kept in the log
  // What it waits for processes that have shards open.
  std::chrono::microseconds timeout{60'000'000};
};

struct JobReceipt {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> serials;  // the last one, by shard
  std::uint64_t messages = 0;
  // Shards that another process has open and has not applied it to yet. It will, or who opens them
  // next: the job is committed.
  std::vector<std::uint32_t> pending;
  bool repeated = false;  // it was committed before
};

// Commits a job. Fails without an effect (kCorruption for files that are damaged or missing), or
// says that the job is committed and what is wrong; may be repeated in any case.
Result<JobReceipt> CommitJob(const std::string& path, const JobCommit& commit);

// Of jobs of one sequence, the last one that a shard has applied.
struct JobInfo {
  std::uint32_t shard = 0;
  std::string sequence;
  std::uint64_t number = 0;  // 0: a job without a sequence, which is named instead
  std::uint64_t first_serial = 0;
  std::uint64_t last_serial = 0;
  std::uint64_t messages = 0;   // in this shard
  std::uint64_t malformed = 0;  // of the whole job
  std::int64_t applied_at_us = 0;
};

// Removes what a job has staged, committed or not, so far as no commit needs it.
Status AbortJob(const std::string& path, const std::string& job);

}  // namespace topicdb
