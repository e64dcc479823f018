// Brings a sealed block into a slab: first its pages, which no reader sees yet, and then its
// records. Also removes blocks that others replace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "layout/columnar/block/block_builder.h"
#include "layout/columnar/block/block_reader.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Writes one sealed block. A BlockRewrite owns it. Not thread-safe.
class BlockOutput {
 public:
  BlockOutput(BlockId id, PageCodec codec, const SealLimits& limits, std::uint32_t level)
      : id_(id),
        level_(level),
        builder_(codec, limits.values_apart ? PageForm::kApart : PageForm::kTogether,
                 limits.page_bytes_max) {}

  // Makes pages of the rows and writes them to RocksDB. Returns kStorage.
  // REQUIRES: called once; the rows are as BlockBuilder::Build requires
  Status WritePages(const RocksSource& source, std::span<const PackedRow> rows);
  // Adds to the batch the records that make the block visible. `deleted` are rows of the new block
  // that were deleted while it was written. REQUIRES: WritePages has succeeded
  Status PutRecords(const RocksSource& now, const DeletedByPage& deleted,
                    rocksdb::WriteBatch* batch) const;

  // Return the block as a BlockReader will find it, and its builder.
  // REQUIRES (block, builder): WritePages has succeeded
  Block block() const { return {id_, true, entry_}; }
  const BlockBuilder& builder() const { return builder_; }

 private:
  const BlockId id_;
  const std::uint32_t level_;  // BlockEntry::level
  BlockBuilder builder_;
  BlockEntry entry_;
  std::string topic_record_;
};

// Adds to the batch the removals of all records and pages of a block. Returns kCorruption if a
// record of the block is damaged.
Status RemoveBlock(const RocksSource& now, const Block& block, rocksdb::WriteBatch* batch);

}  // namespace topicdb::columnar
