// Reading the commit log of one shard.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "store/shard/shard.h"
#include "store/read/stream_plan.h"
#include "topicdb/types/ranges.h"
#include "topicdb/types/read.h"

namespace topicdb {

// What of the log of a shard is wanted.
struct LogQuery {
  std::vector<Filter> filters;  // messages that match any of them
  TimeRange range = {};
  CommitPlace from;  // messages before it are not wanted
  std::uint64_t until = std::numeric_limits<std::uint64_t>::max();  // the last commit
  std::size_t memory_bytes_max = kReadMemoryBytes;  // of decoded messages; see ReadRequest
};

// A place in the log of a shard, and the readers that are open there. Not thread-safe. Must be gone
// before the shard closes, or be released.
class LogCursor {
 public:
  explicit LogCursor(LogQuery query) : query_(std::move(query)), place_(query_.from) {}

  // Each of these appends as many messages as there are until a limit is reached; at least one if
  // there is one. What was deleted, or dropped with its slab, before the call is left out. `shard`
  // may be another handle of the same each time. After an error it is where it was, and what was
  // appended does not count. kCorruption, kInterrupted.

  // Whole commits.
  Status ReadCommits(const std::shared_ptr<Shard>& shard, const PageLimits& limits,
                     const InterruptCheck& interrupted, Batch* batch);
  // May stop within a commit. `indexes`: the place of each message in its commit.
  Status ReadMessages(const std::shared_ptr<Shard>& shard, const PageLimits& limits,
                      const InterruptCheck& interrupted, Batch* batch,
                      std::vector<std::uint32_t>* indexes);

  // Every message before it was given.
  const CommitPlace& place() const { return place_; }
  // The last read has come to the end of what there was.
  bool at_end() const { return readers_.empty(); }
  // Of the view which the last read has read from.
  std::uint64_t removals_version() const { return removals_version_; }
  std::uint64_t view_serial() const { return view_serial_; }
  // Frees what it holds; it goes on from where it is.
  void Release();

 private:
  // A reader's next message, if it is the first of all; and that of the one behind it.
  struct Turn {
    LogReader* reader = nullptr;  // null: all of the view was read
    CommitPlace head;
    CommitPlace until{std::numeric_limits<std::uint64_t>::max(), 0};
  };

  void Open(const std::shared_ptr<Shard>& shard);
  void OpenReaders();
  Result<Turn> NextTurn(const InterruptCheck& interrupted);
  Status CommitsOn(const PageLimits& limits, const InterruptCheck& interrupted, Batch* batch);
  Status MessagesOn(const PageLimits& limits, const InterruptCheck& interrupted, Batch* batch,
                    std::vector<std::uint32_t>* indexes);
  // There is no more in the view.
  void Finish();
  // After a fault it is where it was before; the readers have left behind what nobody gets.
  Status Settle(const CommitPlace& before, Status status);

  const LogQuery query_;
  CommitPlace place_;
  // Readers go before the view, the view before the shard.
  std::shared_ptr<Shard> shard_;
  std::shared_ptr<const ShardView> view_;
  std::uint64_t removals_version_ = 0;
  std::uint64_t view_serial_ = 0;
  std::vector<std::unique_ptr<LogReader>> readers_;  // empty: all of a view was read
};

}  // namespace topicdb
