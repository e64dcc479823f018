// Decides which blocks, pages and rows are wanted by any of several requests (layout/blocks.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/select/row_selector.h"
#include "layout/columnar/select/topic_selector.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Several requests as one question: which blocks, pages and rows does any of them want? A reader
// owns it. Keeps copies of what it needs of the requests. Immutable, and therefore thread-safe.
class BlockQuery {
 public:
  // REQUIRES: at least one request; the requests differ only in streams and filter
  explicit BlockQuery(const std::vector<ReadRequest>& any_of);

  // Returns true if every topic is wanted, so that only times and serials decide.
  bool wants_every_topic() const { return every_topic_; }
  // Selects the wanted rows among the rows of wanted topics.
  const RowSelector& rows() const { return rows_; }
  // Returns true if the block may hold wanted topics, judged by its entry and word filter. Returns
  // kCorruption if the word filter is damaged.
  Result<bool> MayHold(const BlockReader& reader, const Block& block) const;
  // Some pages of a block.
  struct Pages {
    std::vector<std::uint32_t> numbers;
    std::uint64_t rows = 0;  // of these pages together
    Directory directory;     // of all pages of the block; empty if the block is not paged
    std::uint64_t skipped_by_time = 0;  // pages that are not among them
    std::uint64_t skipped_by_topic = 0;

    // Counts all pages of the block.
    void AddTo(ReadCounters* counters) const;
  };
  // Returns the pages of a block that may hold wanted rows. Returns kCorruption if a record of the
  // block is damaged.
  Result<Pages> PagesOf(const Block& block, BlockReader* reader) const;
  // Returns for each topic of the page whether it is wanted.
  std::vector<bool> TopicsOf(const Page& page) const;
  // Returns the blocks that may hold wanted rows, without their streams. Fails and counts as
  // ForEachBlock does.
  Result<std::vector<Block>> ListBlocks(const BlockReader& reader,
                                        ReadCounters* counters = nullptr) const;
  // Calls visit(block) for each block that may hold wanted rows, until visit returns an error.
  // Returns that error, or kCorruption if a record is damaged. Counts all blocks in
  // `counters`, unless it is null.
  template <typename Visit>
  Status ForEachBlock(const BlockReader& reader, Visit visit,
                      ReadCounters* counters = nullptr) const {
    Status fault;
    ReadCounters unwanted;
    if (counters == nullptr) counters = &unwanted;
    const auto consider = [&](Block block) {
      ++counters->blocks;
      if (!rows_.Concerns(block.entry.extent)) {
        ++counters->blocks_skipped_by_time;
        return true;
      }
      auto may_hold = MayHold(reader, block);
      fault = may_hold.ok() ? Status::Ok() : may_hold.status();
      if (!fault.ok()) return false;
      if (!*may_hold) {
        ++counters->blocks_skipped_by_stream;
        return true;
      }
      fault = visit(std::move(block));
      return fault.ok();
    };
    TOPICDB_RETURN_IF_ERROR(reader.ForEachSealed(consider));
    TOPICDB_RETURN_IF_ERROR(fault);
    TOPICDB_RETURN_IF_ERROR(reader.ForEachFresh(consider));
    return fault;
  }

 private:
  std::vector<TopicSelector> selectors_;
  const RowSelector rows_;
  bool every_topic_ = false;
};

}  // namespace topicdb::columnar
