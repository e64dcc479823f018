// Makes of sealed blocks that overlap in time as many that follow each other: a distribution sort.
// The rows of all pages go to windows of time (RowSpill, in a temporary file), and the rows of some
// windows are a block. Memory: the messages of two blocks (block_bytes_max), decoded, however many
// there are.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "layout/columnar/block/topic_sort.h"
#include "layout/columnar/merge/row_spill.h"
#include "layout/columnar/seal/block_output.h"
#include "layout/columnar/seal/block_sealing.h"

namespace topicdb::columnar {

class BlockSpread : public BlockRewrite {
 public:
  using BlockRewrite::BlockRewrite;

  Status Load() override;
  Status WriteData() override;
  Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) override;

 private:
  // A message by its place in a sealed block, and in the order of that.
  struct RowPlace {
    std::uint32_t stream;
    std::string topic;
    std::int64_t time;
    std::uint64_t serial;
    std::uint32_t index;
    auto operator<=>(const RowPlace&) const = default;
  };
  // A new block: its rows have keys from `begin` up to that of the next.
  struct Output {
    RowKey begin;
    std::unique_ptr<BlockOutput> block;
    DeletedByPage deleted;
  };
  // Rows that a block will be made of.
  struct Group {
    RowKey begin;
    std::vector<PageToSort> pages;
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;  // of topics and values
  };

  std::vector<RowKey> ChooseBounds() const;
  // What a block should have: all of equal size, and none larger than allowed.
  std::uint64_t BlockBytes() const;
  Status Distribute(RowSpill* spill);
  Status WriteBlocks(RowSpill* spill);
  Status WriteBlock(Group group);
  // Deletes in the new blocks what was deleted of the old ones since it was last looked at.
  Status CarryDeletes(const RocksSource& now);
  Result<std::vector<RowPlace>> DeletedSince(BlockReader* reader);
  Status Delete(BlockReader* reader, const std::vector<RowPlace>& places, Output* output);

  std::vector<Directory> directories_;  // of each block of the plan
  std::vector<DeletedByPage> deleted_;  // of each: what the new blocks do not have, or have deleted
  std::vector<Output> outputs_;         // by `begin`
};

}  // namespace topicdb::columnar
