// Reads the commit log of one shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "store/cursor/given_reads.h"
#include "store/read/log_gaps.h"
#include "store/read/stream_plan.h"
#include "store/shard/shard.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"
#include "topicdb/types/read.h"

namespace topicdb {

// Says which part of the log of a shard a reader wants.
struct LogQuery {
  std::vector<Filter> filters;  // a message must match any of them
  TimeRange range = {};
  CommitPlace from;                                 // messages before it are not wanted
  Serial until = kLastSerial;                       // last wanted commit
  std::size_t memory_bytes_max = kReadMemoryBytes;  // of decoded messages; see ReadRequest
  std::shared_ptr<const GivenReads> given = {};     // is left out; null: nothing
};

// Reads the log of a shard in the order of commits. Keeps its place, and the readers that are open
// there. A tail or a subscription owns it. Not thread-safe. Its owner must destroy or release it
// before the shard closes.
//
// It does not go past a generation without a log that may hold wanted messages (LogGaps): it
// returns everything before that generation, and then an error.
class LogCursor {
 public:
  explicit LogCursor(LogQuery query)
      : query_(std::move(query)),
        place_(query_.from),
        gaps_(std::make_shared<LogGaps>(WantsOf(query_.filters, query_.range))) {}

  // Looks for generations without a log with `gaps` from now on, for a reader that reads more than
  // somebody wants.
  void LookWith(std::shared_ptr<LogGaps> gaps) { gaps_ = std::move(gaps); }

  // ReadCommits and ReadMessages append messages until a limit is reached or there are no more.
  // They append at least one message if there is one. They leave out messages that were deleted, or
  // dropped with their slab, before the call. `shard` may be another handle of the same shard each
  // time. After an error, the cursor is where it was, and the caller must ignore what was appended.
  // They return kSchema if the next messages may be in a generation without a log, and kCorruption,
  // kInterrupted or kStorage, and what GivenReads::Check does.

  // Reads whole commits, so the last one may exceed the limits.
  Status ReadCommits(const std::shared_ptr<Shard>& shard, const PageLimits& limits,
                     const InterruptCheck& interrupted, Batch* batch);
  // Reads messages, and may stop within a commit. Appends the number of each message in its commit
  // to `indexes`.
  Status ReadMessages(const std::shared_ptr<Shard>& shard, const PageLimits& limits,
                      const InterruptCheck& interrupted, Batch* batch,
                      std::vector<std::uint32_t>* indexes);

  // Returns the place before which the cursor has returned every message.
  const CommitPlace& place() const { return place_; }
  // Returns whether the last read came to the end of its view.
  bool at_end() const { return readers_.empty() && !is_before_gap_; }
  // Returns whether the last read went over commits from which a generation without a log has
  // messages that the cursor does not look for.
  bool passed_unlogged() const { return passed_unlogged_; }
  // Return the numbers of the view that the last read used; see ShardView.
  std::uint64_t removals_version() const { return removals_version_; }
  Serial view_serial() const { return view_serial_; }
  // Releases the readers, the view and the shard. The next read continues from place().
  void Release();

 private:
  // The reader with the first message of all, the place of that message, and the place at which it
  // is another reader's turn.
  struct Turn {
    LogReader* reader = nullptr;  // null: all of the view was read
    CommitPlace head;
    CommitPlace until{kLastSerial, 0};
  };

  // Opens readers of the newest view at place_. Keeps those that are open unless something was
  // removed since, or another gap was found. Returns kSchema at a gap.
  Status Open(const std::shared_ptr<Shard>& shard);
  // Returns what iterators have given of what follows place_, or null for nothing.
  const GivenReads* Given() const {
    const GivenReads* const given = query_.given.get();
    return given != nullptr && place_.serial <= given->seen() ? given : nullptr;
  }
  // Notes the first gap of view_ from place_ on. What iterators have given as a whole is none.
  void FindGap();
  // Returns the last commit that the readers of view_ may return.
  Serial Until() const {
    return gap_.has_value() ? std::min(query_.until, gap_->first.Previous()) : query_.until;
  }
  // Open readers of view_, and of one slab of it.
  Status OpenReaders();
  void OpenReadersOf(const Slab& slab, const GivenReads* given);
  // Finds the reader whose turn it is.
  Result<Turn> NextTurn(const InterruptCheck& interrupted);
  // Opens readers and calls read_on(), which reads with them. Does so again if it has come to a gap
  // without a message, so that the caller gets the error.
  template <typename ReadOn>
  Status Read(const std::shared_ptr<Shard>& shard, const Batch& batch, ReadOn read_on);
  // Do the work of ReadCommits and ReadMessages with the open readers.
  Status CommitsOn(const PageLimits& limits, const InterruptCheck& interrupted, Batch* batch);
  Status MessagesOn(const PageLimits& limits, const InterruptCheck& interrupted, Batch* batch,
                    std::vector<std::uint32_t>* indexes);
  // Moves the cursor behind what the readers may return, which is all of the view unless there is a
  // gap, and releases the view.
  void Finish();
  // If `status` is an error, moves the cursor back to `before` and releases the readers, which have
  // gone past messages that nobody gets. Returns `status`.
  Status Settle(const CommitPlace& before, Status status);

  const LogQuery query_;
  CommitPlace place_;
  std::shared_ptr<LogGaps> gaps_;
  std::optional<LogGap> gap_;      // the first that is wanted in the view that is read
  Serial unlogged_ = kLastSerial;  // from here on, a generation without a log has any messages
  bool passed_unlogged_ = false;
  bool is_before_gap_ = false;  // the last read has come to gap_
  // Readers must be destroyed before the view, and the view before the shard.
  std::shared_ptr<Shard> shard_;
  std::shared_ptr<const ShardView> view_;
  std::uint64_t removals_version_ = 0;
  Serial view_serial_;
  std::vector<std::unique_ptr<LogReader>> readers_;  // empty: all of a view was read
};

}  // namespace topicdb
