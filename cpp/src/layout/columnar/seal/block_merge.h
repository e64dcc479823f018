// Makes one sealed block of several blocks. Also makes a new block of a single one, to leave out
// its deleted rows or to compress it better. Needs memory for the decoded messages of one block
// (block_bytes_max).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "layout/columnar/block/topic_sort.h"
#include "layout/columnar/seal/block_output.h"
#include "layout/columnar/seal/block_sealing.h"

namespace topicdb::columnar {

// Owned by one step of sealing. Not thread-safe.
class BlockMerge : public BlockRewrite {
 public:
  using BlockRewrite::BlockRewrite;

  Status Load() override;
  Status WriteData() override;
  Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) override;

 private:
  // Returns the rows that were deleted since the blocks of the plan were read, as rows of the new
  // block.
  Result<DeletedByPage> DeletedSince(const RocksSource& now) const;

  std::vector<PageToSort> pages_;                                  // of all blocks of the plan
  std::vector<std::pair<std::size_t, std::uint32_t>> page_names_;  // the block and number of each
  SortedRows sorted_;
  std::optional<BlockOutput> output_;  // absent: all rows are deleted
};

}  // namespace topicdb::columnar
