// How far the commits of a shard go until their messages are more than some limits.
#pragma once

#include <map>
#include <vector>

#include "layout/blocks.h"
#include "store/read/stream_plan.h"

namespace topicdb {

// One measurement. Blocks that surely fit are counted by their entries; only those at the ends,
// and all of which not every topic is wanted, are read.
class LogMeasure {
 public:
  LogMeasure(const ShardView& view, const std::vector<Filter>& filters, const CommitRange& range,
             const PageLimits& limits, const InterruptCheck& interrupted);
  Result<CommitSpan> Run();

 private:
  struct Block {
    const Slab* slab;
    BlockInfo info;
  };

  Status List();
  // Adds what is wanted of a block to counts_.
  Status Expand(const Block& block);
  // Counts whole blocks from next_ on, as many as fit beside what is in counts_.
  Status CountWhole();
  Result<CommitSpan> CountCommits();
  // The range may end before the next block.
  bool EndsWithBlock() const;
  bool Fits(const MessageCount& sum) const {
    return sum.messages <= limits_.rows_max && sum.bytes <= limits_.bytes_max;
  }

  const ShardView& view_;
  const std::vector<Filter>& filters_;
  const std::uint64_t after_;
  const std::uint64_t until_;
  const TimeRange times_;
  const bool counts_all_;  // messages of every topic and time
  const bool whole_blocks_;
  const PageLimits limits_;
  const InterruptCheck& interrupted_;

  std::map<const Slab*, std::vector<ReadRequest>> requests_;
  std::vector<Block> blocks_;  // by first commit
  std::size_t next_ = 0;       // in blocks_
  std::map<std::uint64_t, MessageCount> counts_;
  MessageCount total_;  // of what fits
};

}  // namespace topicdb
