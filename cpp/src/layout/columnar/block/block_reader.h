// Finds and loads the blocks of one slab at one moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "layout/layout.h"

namespace topicdb::columnar {

struct Block {
  BlockId id = 0;
  bool sealed = false;  // or among the fresh ones
  BlockEntry entry;

  // Whether it has a directory, a word filter and pages of their own.
  bool is_paged() const { return sealed || entry.staged; }
  // Topics and values of a page, about: pages of a block are alike.
  std::uint64_t BytesOfPage() const {
    return entry.bytes / std::max<std::uint32_t>(entry.pages, 1);
  }
};

// Not thread-safe.
class BlockReader {
 public:
  // Topics and values of pages that a reader should have loaded side by side.
  static constexpr std::uint64_t kBytesAtOnceMax = std::uint64_t{4} << 20;

  explicit BlockReader(const RocksSource& source) : source_(source) {}

  // Call visit(block) for the sealed blocks by number, or for the fresh ones from the last to the
  // first, until it gives false. kCorruption, as all that follow; they name the block.
  template <typename Visit>
  Status ForEachSealed(Visit visit) const {
    const std::unique_ptr<rocksdb::Iterator> records = NewIterator();
    const std::string prefix = KindPrefix(RecordKind::kSealedEntry);
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      Block block;
      TOPICDB_RETURN_IF_ERROR(DecodeEntry(*records, true, &block));
      if (!visit(std::move(block))) return Status::Ok();
    }
    return Check(*records);
  }
  template <typename Visit>
  Status ForEachFresh(Visit visit) const {
    const std::unique_ptr<rocksdb::Iterator> records = NewIterator();
    const std::string prefix = KindPrefix(RecordKind::kFreshEntry);
    for (records->SeekForPrev(RecordKey(RecordKind::kFreshEntry, ~BlockId{0}));
         records->Valid() && records->key().starts_with(prefix); records->Prev()) {
      Block block;
      TOPICDB_RETURN_IF_ERROR(DecodeEntry(*records, false, &block));
      if (!visit(std::move(block))) return Status::Ok();
    }
    return Check(*records);
  }

  // The largest number of a sealed block; 0 if there is none.
  Result<BlockId> LastSealed() const;
  Result<Directory> LoadDirectory(BlockId block) const;
  // The same, and it fits the block's entry.
  Result<Directory> LoadDirectory(const Block& block) const;
  Result<std::string> LoadWordFilter(BlockId block) const;
  // The record of its topics; absent if it has none: it was written before there were any.
  Result<std::optional<std::string>> LoadTopics(BlockId block) const;
  // Null if the block is not a staged one.
  Result<std::shared_ptr<const Placement>> LoadPlacement(const Block& block);
  Result<std::shared_ptr<const Page>> LoadPage(const Block& block, std::uint32_t page);
  struct PageRef {
    const Block* block;
    std::uint32_t page;
  };
  // Loads pages, side by side on several processors if they are large, and gives them in this
  // order.
  Result<std::vector<std::shared_ptr<const Page>>> LoadPages(std::span<const PageRef> wanted);
  Result<DeletedByPage> LoadDeleted(BlockId block);
  // Of pages that were loaded, as they are stored.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::unique_ptr<rocksdb::Iterator> NewIterator() const;
  static Status DecodeEntry(const rocksdb::Iterator& records, bool sealed, Block* block);
  static Status Check(const rocksdb::Iterator& records);
  // Whether what is read replaces something in RocksDB's cache. What a large read passes once would
  // displace all that others need again.
  enum class Caching { kKeep, kPass };
  Result<std::string> Get(rocksdb::ColumnFamilyHandle* family, const std::string& key,
                          const char* what, BlockId block, Caching caching = Caching::kKeep) const;
  // Any number of threads may be in it. bytes: that it has read.
  Result<std::shared_ptr<const Page>> LoadPlaced(const Block& block, std::uint32_t page,
                                                 const Placement* placement, Caching caching,
                                                 std::size_t* bytes) const;

  const RocksSource source_;
  std::uint64_t bytes_read_ = 0;
  std::map<BlockId, std::shared_ptr<const Placement>> placements_;  // loaded lately
  std::unique_ptr<rocksdb::Iterator> deleted_;  // kept: it is asked for block after block
  bool has_deleted_ = true;
};

}  // namespace topicdb::columnar
