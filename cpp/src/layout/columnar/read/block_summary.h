// Counts the messages of blocks in groups, and reads as few pages as possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/select/block_query.h"
#include "layout/message_groups.h"
#include "topicdb/interrupt.h"

namespace topicdb::columnar {

// Counts the messages of one slab that any of several requests wants. It counts a block by its
// entry, or a page by the directory, if all of its messages are surely wanted and are surely in one
// group. It reads all other pages that may hold wanted messages. Summarize makes one for a slab.
// Not thread-safe.
class BlockSummary {
 public:
  // Adds what it counts to `groups`, which must outlive it.
  BlockSummary(const RocksSource& source, const std::vector<ReadRequest>& any_of,
               MessageGroups* groups);

  // Counts. The caller must call this once. Returns kCorruption, kInterrupted or kStorage, or
  // kInvalidArgument if there are too many groups.
  Status Run(const InterruptCheck& interrupted);
  ReadCounters counters() const;

 private:
  // Counts one block.
  Status AddBlock(const Block& block, const InterruptCheck& interrupted);
  // Adds to the groups what the directory tells about the pages of a paged block. Returns the pages
  // that must be read.
  Result<std::vector<std::uint32_t>> AddByDirectory(const Block& block,
                                                    const DeletedByPage& deleted);
  // Returns whether all messages of a part of a block are wanted and in one group, as far as times
  // and commits decide. The part must have no deleted rows.
  bool IsOneGroup(const Extent& extent) const;
  // Adds the wanted rows of a page. `deleted` is null if the page has no deleted rows.
  void AddPage(const Page& page, const DeletedRows* deleted);
  // Returns which parts of the pages of a block are needed: times, unless commits or masks may
  // decide about some rows.
  PageParts PartsOf(const Extent& block) const;
  // Returns the count of the group of a topic and a timestamp, which lies in `span`. Without
  // topics, it looks first among those that were asked for lately: rows that follow each other in a
  // page are mostly in different spans.
  MessageGroups::Count& CountOf(std::string_view topic, const MessageGroups::Span& span,
                                std::int64_t time);
  // Adds all rows of the wanted topics, run by run.
  void AddRuns(const Page& page);
  // Adds rows one by one. `masked` says whether a mask may hide some.
  void AddRows(const Page& page, bool masked, const DeletedRows* deleted);

  const BlockQuery query_;
  MessageGroups* const groups_;
  BlockReader reader_;
  ReadCounters counters_;

  // The count of a span, in a place that its first timestamp decides. Later ones take over a place.
  struct Recent {
    std::int64_t span_first = 0;
    MessageGroups::Count* count = nullptr;  // null: the place is free
  };
  static constexpr int kRecentBits = 14;
  static constexpr int kRecentShift = 64 - kRecentBits;
  std::vector<Recent> recent_;  // empty until it is needed
};

}  // namespace topicdb::columnar
