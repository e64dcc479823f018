// Measures how far the commits of a shard go until their messages exceed some limits.
#pragma once

#include <map>
#include <vector>

#include "layout/blocks.h"
#include "store/read/stream_plan.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Makes one measurement; see Database::MeasureLog. It counts sealed blocks that surely fit by their
// entries. It reads only fresh blocks, the blocks at the ends, and all blocks of which not every
// topic is wanted. The view, the filters and the check must outlive it. Not thread-safe.
class LogMeasure {
 public:
  LogMeasure(const ShardView& view, const std::vector<Filter>& filters, const CommitRange& range,
             const PageLimits& limits, const InterruptCheck& interrupted);
  // Measures. The caller must call this once. Returns kCorruption, kInterrupted or kStorage.
  Result<CommitSpan> Run();

 private:
  // A block that may have wanted messages.
  struct Block {
    const Slab* slab;
    BlockInfo info;
  };

  // Sets blocks_ and requests_.
  Status List();
  // Returns the wanted messages of a block by their commits.
  Result<std::map<Serial, MessageCount>> Count(const Block& block) const;
  // Sets the size of a block whose entry does not tell it.
  Status Weigh(Block* block) const;
  // Adds the wanted messages of a block to counts_.
  Status Expand(const Block& block);
  // Counts whole blocks from next_ on, as many as fit together with what is in counts_.
  Status CountWhole();
  // Counts commit by commit from next_ on, and returns the span of those that fit.
  Result<CommitSpan> CountCommits();
  // Returns whether the range may end before the next block.
  bool EndsWithBlock() const;
  // Returns whether this count is within the limits.
  bool Fits(const MessageCount& sum) const {
    return sum.messages <= limits_.rows_max && sum.bytes <= limits_.bytes_max;
  }

  const ShardView& view_;
  const std::vector<Filter>& filters_;
  const Serial after_;
  const Serial until_;
  const TimeRange times_;
  const bool counts_all_;  // messages of every topic and time are wanted
  const bool whole_blocks_;
  const PageLimits limits_;
  const InterruptCheck& interrupted_;

  std::map<const Slab*, std::vector<ReadRequest>> requests_;
  std::vector<Block> blocks_;  // by first commit
  std::size_t next_ = 0;       // in blocks_
  std::map<Serial, MessageCount> counts_;
  MessageCount total_;  // of what fits
};

}  // namespace topicdb
