// Which blocks, pages and rows any of some requests wants (layout/blocks.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/select/row_selector.h"
#include "layout/columnar/select/topic_selector.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Immutable. Keeps copies of what it needs.
class BlockQuery {
 public:
  explicit BlockQuery(const std::vector<ReadRequest>& any_of);

  // Every topic is wanted: only times and serials decide.
  bool wants_every_topic() const { return every_topic_; }
  // Which rows are wanted of those whose topic is.
  const RowSelector& rows() const { return rows_; }
  // By entry and word filter. kCorruption.
  Result<bool> MayHold(const BlockReader& reader, const Block& block) const;
  // Pages of a block that may hold wanted rows, and how many rows those have. kCorruption.
  struct Pages {
    std::vector<std::uint32_t> numbers;
    std::uint64_t rows = 0;
  };
  Result<Pages> PagesOf(const Block& block, BlockReader* reader) const;
  // By topic of the page.
  std::vector<bool> TopicsOf(const Page& page) const;
  // Calls visit(block) for blocks that may hold wanted rows. kCorruption.
  template <typename Visit>
  Status ForEachBlock(const BlockReader& reader, Visit visit) const {
    Status fault;
    const auto consider = [&](Block block) {
      if (!rows_.Concerns(block.entry.extent)) return true;
      auto may_hold = MayHold(reader, block);
      fault = may_hold.ok() ? Status::Ok() : may_hold.status();
      if (fault.ok() && *may_hold) fault = visit(std::move(block));
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
