// Sealing: blocks that follow each other in commit order become one sealed block, sorted by stream,
// topic, timestamp, serial and index, without the rows that were deleted. Fresh blocks first; small
// sealed blocks are merged the same way, eight of like size at a time, so that a message is written
// again a number of times that is the logarithm of the sizes.
//
// LZ4 while messages are added: it takes a quarter of the time of Zstandard to read and half to
// write. Zstandard once the slab is closed, in half the space.
//
// What is written before the entry is put is seen by nobody, so a crash leaves the old blocks or
// the new one. Memory: the messages of one block (block_bytes_max), decoded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layout/columnar/block_builder.h"
#include "layout/columnar/block_reader.h"
#include "layout/columnar/page.h"
#include "layout/layout.h"

namespace topicdb::columnar {

class BlockSealing : public Sealing {
 public:
  BlockSealing(const RocksSource& source, LayoutState* state, const SealLimits& limits);

  Result<bool> Gather(SealScope scope) override;
  Status WriteData() override;
  Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) override;
  void Apply() override;

 private:
  using DeletedByPage = std::map<std::uint32_t, DeletedRows>;
  struct Input {
    Block block;
    DeletedByPage deleted;
    std::vector<std::shared_ptr<const Page>> pages;
  };
  // Where a row of the new block was.
  struct Origin {
    std::uint32_t input;
    std::uint32_t page;
    std::uint32_t row;
    auto operator<=>(const Origin&) const = default;
  };

  Status ChooseFresh(std::vector<Block>* chosen);
  // Small ones to be merged; or else one of which half is deleted; or else, in a closed slab, one
  // to be compressed better.
  Status ChooseSealed(std::vector<Block>* chosen);
  Status ChooseDeleted(const std::vector<Block>& blocks, std::vector<Block>* chosen);
  Status Load(std::vector<Block> chosen);
  // Fills rows_ and origins_.
  void Sort();
  // What was deleted of the inputs since they were read, as rows of the new block, by page.
  Result<DeletedByPage> DeletedSince(const RocksSource& now) const;
  // Staged blocks with nothing before them among the fresh ones become sealed ones as they are.
  Status Promote(const RocksSource& now, rocksdb::WriteBatch* batch) const;
  Status RemoveInputs(const RocksSource& now, rocksdb::WriteBatch* batch) const;

  const RocksSource source_;
  LayoutState* const state_;
  const SealLimits limits_;
  BlockReader reader_;
  std::vector<Input> inputs_;
  std::uint64_t fresh_blocks_ = 0;  // of the inputs
  std::uint64_t fresh_bytes_ = 0;
  std::vector<PackedRow> rows_;
  std::vector<Origin> origins_;  // of rows_
  PageCodec codec_ = PageCodec::kLz4;
  BlockId block_ = 0;
  std::optional<BlockBuilder> builder_;
  std::string topic_record_;
  std::vector<Block> promoted_;
};

}  // namespace topicdb::columnar
