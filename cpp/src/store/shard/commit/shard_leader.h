// The replica of a shard that leads, as those see it that follow.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "commit/append_ids.h"
#include "store/job/staged_job.h"
#include "store/shard/commit/shard_commit.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/times.h"

namespace topicdb {

// How Shard::Rotate rotates.
struct RotateOptions {
  std::optional<RetentionClassId> retention_class;  // absent: all
  std::optional<WallTime> as_if;
  bool resets_clock = false;
  std::optional<LayoutKind> layout;
};

// Has the replica that leads a shard do what this one may not, so that a program can write at any
// site. The replica of the shard owns it, and it lives as long as the shard is open. Thread-safe.
//
// All calls return kNotLeader, and have done nothing, if this replica leads by now, or if none has
// come to lead at the deadline. They return kUnknownOutcome if the leader was lost meanwhile.
class ShardLeader {
 public:
  using Clock = std::chrono::steady_clock;

  ShardLeader() = default;
  virtual ~ShardLeader() = default;
  ShardLeader(const ShardLeader&) = delete;
  ShardLeader& operator=(const ShardLeader&) = delete;

  // Returns how long a caller should wait for a leader.
  virtual std::chrono::milliseconds patience() const = 0;
  // Applies commits in their order, finishes their deletes, and sets the outcome of each. Returns
  // when readers see the commits here, too.
  virtual void Commit(std::span<ShardCommit* const> group, Clock::time_point deadline) = 0;
  // Has the leader remember what is committed from now on, for a transaction that begins here.
  // Returns when readers see here what was committed before.
  virtual Status BeginTransaction(Clock::time_point deadline) = 0;
  // These do what the methods of Shard do.
  virtual Result<std::optional<KnownAppend>> FindAppend(std::string_view id,
                                                        Clock::time_point deadline) = 0;
  virtual Status Rotate(const RotateOptions& options, Clock::time_point deadline) = 0;
  virtual Status DropSlab(RetentionClassId retention_class, Generation generation,
                          Clock::time_point deadline) = 0;
  // Does what StagingArea::Do does.
  virtual Status Stage(const StagingStep& step, Clock::time_point deadline) = 0;
  // Does what ShardSealing::SealAll does. Returns when this replica has the sealed blocks, too.
  virtual Status SealAll(Clock::time_point deadline) = 0;
};

}  // namespace topicdb
