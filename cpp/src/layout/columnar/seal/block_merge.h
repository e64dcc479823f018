// Makes one sealed block of several, or of one whose rows were deleted or that is to be compressed
// better. Memory: the messages of one block (block_bytes_max), decoded.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "layout/columnar/block/topic_sort.h"
#include "layout/columnar/seal/block_output.h"
#include "layout/columnar/seal/block_sealing.h"

namespace topicdb::columnar {

class BlockMerge : public BlockRewrite {
 public:
  using BlockRewrite::BlockRewrite;

  Status Load() override;
  Status WriteData() override;
  Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) override;

 private:
  // What was deleted of the inputs since they were read, as rows of the new block.
  Result<DeletedByPage> DeletedSince(const RocksSource& now) const;

  std::vector<PageToSort> pages_;                                  // of all inputs
  std::vector<std::pair<std::size_t, std::uint32_t>> page_names_;  // input and its page, of each
  SortedRows sorted_;
  std::optional<BlockOutput> output_;  // absent: all rows are deleted
};

}  // namespace topicdb::columnar
