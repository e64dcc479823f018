// Reading a slab block by block, in no order: for layouts that have blocks (Layout::seals()), of
// which there is one. What all of these want is what any of some requests wants; those agree in all
// but streams and filter, and there is at least one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "layout/layout.h"

namespace topicdb {

// What is known of a block without reading its messages.
struct BlockInfo {
  std::uint64_t id = 0;
  bool sealed = false;
  bool staged = false;
  std::uint32_t rows = 0;  // all of it
  std::uint32_t pages = 0;
  std::int64_t first_time = 0;
  std::int64_t last_time = 0;
  std::uint64_t first_serial = 0;
  std::uint64_t last_serial = 0;
  MessageCount size;  // about what is wanted of it, without what was deleted
};

// Blocks that may hold wanted messages. kCorruption.
Result<std::vector<BlockInfo>> ListBlocks(const RocksSource& source,
                                          const std::vector<ReadRequest>& any_of);

// Wanted messages of a block by the serial of their commit. Reads the pages that may hold them.
// kCorruption.
Result<std::map<std::uint64_t, MessageCount>> CountByCommit(const RocksSource& source,
                                                            const BlockInfo& block,
                                                            const std::vector<ReadRequest>& any_of);

// Each wanted message once, as they are stored: no sorting, a page in memory at a time.
std::unique_ptr<StreamReader> NewUnorderedReader(const RocksSource& source,
                                                 std::vector<ReadRequest> any_of);

}  // namespace topicdb
