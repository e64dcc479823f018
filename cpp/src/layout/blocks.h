// Reads a slab block by block, in no order. Only for layouts that have blocks (Layout::log()):
// today that is the layout columnar.
//
// The functions take several requests, and a message is wanted if any of the requests wants it.
// REQUIRES (ListBlocks, CountByCommit, NewUnorderedReader, SummarizeBlocks): at least one request;
// the requests differ only in streams and filter
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "layout/layout.h"
#include "layout/message_groups.h"
#include "topicdb/interrupt.h"

namespace topicdb {

// What the records of a slab say about a block, without its messages.
struct BlockInfo {
  BlockId id;
  bool sealed = false;
  bool staged = false;
  std::uint32_t rows = 0;  // all rows of the block
  std::uint32_t pages = 0;
  std::int64_t first_time = 0;
  std::int64_t last_time = 0;
  Serial first_serial;
  Serial last_serial;
  MessageCount size;  // an estimate of the wanted messages, without deleted ones
};

// Returns the blocks that may hold wanted messages. Returns kCorruption if a record is damaged.
Result<std::vector<BlockInfo>> ListBlocks(const RocksSource& source,
                                          const std::vector<ReadRequest>& any_of);

// Returns how many wanted messages of the block each commit has, by the serial of the commit. Reads
// the pages that may hold wanted messages. Returns kCorruption if a record or a page is damaged.
// REQUIRES: ListBlocks returned `block`
Result<std::map<Serial, MessageCount>> CountByCommit(const RocksSource& source,
                                                     const BlockInfo& block,
                                                     const std::vector<ReadRequest>& any_of);

// Returns a reader that reads each wanted message once, in the order in which blocks store them.
// The reader does not sort, and keeps few pages in memory at a time.
std::unique_ptr<StreamReader> NewUnorderedReader(const RocksSource& source,
                                                 std::vector<ReadRequest> any_of);

// Adds the wanted messages to `groups`. Counts blocks by their entries and pages by the directories
// of their blocks where these tell enough, and reads no other page than it must. Returns what it
// has read. Returns kCorruption, kInterrupted or kStorage, or kInvalidArgument if there are too
// many groups; `groups` has a part of the messages then.
Result<ReadCounters> SummarizeBlocks(const RocksSource& source,
                                     const std::vector<ReadRequest>& any_of,
                                     const InterruptCheck& interrupted, MessageGroups* groups);

}  // namespace topicdb
