// A sealed block on its way into a slab: first its pages, which nobody sees, then its records. And
// the way out, of blocks that it replaces.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "layout/columnar/block/block_builder.h"
#include "layout/columnar/block/block_reader.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Owned by one step of sealing; not thread-safe.
class BlockOutput {
 public:
  BlockOutput(BlockId id, PageCodec codec, std::size_t page_bytes_max, std::uint32_t level)
      : id_(id), level_(level), builder_(codec, page_bytes_max) {}

  // Writes the pages. kStorage. REQUIRES: as BlockBuilder::Build; called once
  Status WritePages(const RocksSource& source, std::span<const PackedRow> rows);
  // Adds what makes the block seen to the batch.
  Status PutRecords(const RocksSource& now, const DeletedByPage& deleted,
                    rocksdb::WriteBatch* batch) const;

  // As it will be read.
  Block block() const { return {id_, true, entry_}; }
  const BlockBuilder& builder() const { return builder_; }

 private:
  const BlockId id_;
  const std::uint32_t level_;  // BlockEntry::level
  BlockBuilder builder_;
  BlockEntry entry_;
  std::string topic_record_;
};

// Adds to the batch what removes all records and pages of a block.
Status RemoveBlock(const RocksSource& now, const Block& block, rocksdb::WriteBatch* batch);

}  // namespace topicdb::columnar
