// Makes of sealed blocks that overlap in time as many blocks that follow each other in time.
//
// This is a distribution sort: the rows of all pages go to windows of time, in a temporary file
// (RowSpill), and the rows of some successive windows become a block. Needs memory for the decoded
// messages of two blocks (block_bytes_max), however many blocks there are.
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

// Owned by one step of sealing. Not thread-safe.
class BlockSpread : public BlockRewrite {
 public:
  using BlockRewrite::BlockRewrite;

  Status Load() override;
  Status WriteData() override;
  Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) override;

 private:
  // Identifies a message. Sorts as the rows of a sealed block do.
  struct RowPlace {
    StreamId stream;
    std::string topic;
    std::int64_t time;
    Serial serial;
    std::uint32_t index;
    auto operator<=>(const RowPlace&) const = default;
  };
  // A new block. Its rows have keys from `begin` up to the `begin` of the next block.
  struct Output {
    RowKey begin;
    std::unique_ptr<BlockOutput> block;
    DeletedByPage deleted;
  };
  // The rows that will become one block.
  struct Group {
    RowKey begin;
    std::vector<PageToSort> pages;
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;  // of topics and values
  };

  // Returns where the windows of time begin.
  std::vector<RowKey> ChooseBounds() const;
  // Returns the bytes that each block should have, so that all blocks have equal size and none is
  // larger than allowed.
  std::uint64_t BlockBytes() const;
  // Adds to the spill all rows of the blocks that were not deleted when Load read the records.
  Status Distribute(RowSpill* spill);
  // Takes the windows from the spill one after the other, and makes blocks of them.
  Status WriteBlocks(RowSpill* spill);
  // Makes a block of a group, and adds it to outputs_.
  Status WriteBlock(Group group);
  // Deletes in the new blocks the rows that were deleted in the old blocks since the last look.
  Status CarryDeletes(const RocksSource& now);
  // Returns the rows that were deleted in the old blocks since the last look, and updates deleted_.
  Result<std::vector<RowPlace>> DeletedSince(BlockReader* reader);
  // Adds these rows to the deleted rows of a new block. REQUIRES: `places` is sorted
  Status Delete(BlockReader* reader, const std::vector<RowPlace>& places, Output* output);

  std::vector<Directory> directories_;  // of each block of the plan
  std::vector<DeletedByPage> deleted_;  // rows of each that the new blocks leave out or delete
  std::vector<Output> outputs_;         // by `begin`
};

}  // namespace topicdb::columnar
