// Finds and loads the blocks of one slab, as they are at one moment.
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

// A block of a slab, by its entry.
struct Block {
  BlockId id;
  bool sealed = false;  // if false, the block is a fresh one
  BlockEntry entry;

  // Returns true if the block has a directory, a word filter and pages in the family `sealed`.
  bool is_paged() const { return sealed || entry.staged; }
  // Returns how many bytes of topics and values these parts of the block have. The bytes of keys
  // are at most that if the block's values are not apart.
  std::uint64_t BytesOf(PageParts parts) const {
    return parts == PageParts::kAll ? entry.bytes : entry.bytes - entry.value_bytes;
  }
  // Returns about how many of these bytes a page has. Pages of a block are alike.
  std::uint64_t BytesOfPage(PageParts parts) const {
    return BytesOf(parts) / std::max<std::uint32_t>(entry.pages, 1);
  }
};

// Returns which parts of pages a request wants.
inline PageParts PartsOf(const ReadRequest& request) {
  return request.with_values ? PageParts::kAll : PageParts::kKeys;
}

// Reads records and pages of the blocks of one slab. A reader or a step of sealing owns it. The
// database must outlive it. Not thread-safe.
//
// All methods return kCorruption, with a message that names the block, if a record or page is
// damaged or missing. They return kStorage if RocksDB cannot read.
class BlockReader {
 public:
  // A caller should have at most about this many bytes of topics and values loaded at once.
  static constexpr std::uint64_t kBytesAtOnceMax = std::uint64_t{4} << 20;

  explicit BlockReader(const RocksSource& source) : source_(source) {}

  // Call visit(block) for each block until visit returns false. ForEachSealed visits sealed blocks
  // by ascending numbers. ForEachFresh visits fresh blocks from the last to the first.
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
    for (records->SeekForPrev(RecordKey(RecordKind::kFreshEntry, kLastBlock));
         records->Valid() && records->key().starts_with(prefix); records->Prev()) {
      Block block;
      TOPICDB_RETURN_IF_ERROR(DecodeEntry(*records, false, &block));
      if (!visit(std::move(block))) return Status::Ok();
    }
    return Check(*records);
  }

  // Return the largest number of a sealed block, and of a block with a record of deleted rows, or
  // kNoBlock if there is none. Such a record may be there without its block: see DeletedRowsKey.
  Result<BlockId> LastSealed() const;
  Result<BlockId> LastWithDeleted() const;
  // Return the directory of a paged block. The second form also checks that the directory fits the
  // block's entry.
  Result<Directory> LoadDirectory(BlockId block) const;
  Result<Directory> LoadDirectory(const Block& block) const;
  // Returns the filter over the words of a paged block.
  Result<std::string> LoadWordFilter(BlockId block) const;
  // Returns the record of the block's topics (topic_list.h), or nothing if the block has none.
  // Older versions wrote none.
  Result<std::optional<std::string>> LoadTopics(BlockId block) const;
  // Returns the placement of a staged block, or null for any other block.
  Result<std::shared_ptr<const Placement>> LoadPlacement(const Block& block);
  // Returns a page by its number in the block. A fresh block that is not paged has only page 0.
  // Without values, does not read them if they are apart.
  Result<std::shared_ptr<const Page>> LoadPage(const Block& block, std::uint32_t page,
                                               PageParts parts = PageParts::kAll);
  // Names a page to load.
  struct PageRef {
    const Block* block;
    std::uint32_t page;
  };
  // Loads pages and returns them in the order of `wanted`. Loads large pages side by side, on
  // several processors.
  Result<std::vector<std::shared_ptr<const Page>>> LoadPages(std::span<const PageRef> wanted,
                                                             PageParts parts = PageParts::kAll);
  // Returns what is stored of a page, without a look at it. `placement` is that of the block, or
  // null.
  Result<StoredPage> LoadStored(const Block& block, std::uint32_t page, PageParts parts,
                                const Placement* placement);
  // Returns the deleted rows of a block.
  Result<DeletedByPage> LoadDeleted(BlockId block);
  // Returns the stored bytes of all pages that were loaded.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  static constexpr BlockId kLastBlock{~std::uint64_t{0}};  // the largest number there can be

  // Returns an iterator over the records of the slab.
  std::unique_ptr<rocksdb::Iterator> NewIterator() const;
  // Returns the block of the last record of this kind, or kNoBlock if there is none. `key_max` is
  // the largest key that such a record may have.
  Result<BlockId> LastOf(RecordKind kind, const std::string& key_max) const;
  // Decodes the entry at which the iterator stands.
  static Status DecodeEntry(const rocksdb::Iterator& records, bool sealed, Block* block);
  // Returns the error that an iterator has met, if any.
  static Status Check(const rocksdb::Iterator& records);
  // Says whether RocksDB keeps in its cache what is read. A large read needs pages only once, and
  // would displace what other reads need again.
  enum class Caching { kKeep, kPass };
  // Returns the value of a key. `what` names it in an error.
  Result<std::string> Get(rocksdb::ColumnFamilyHandle* family, const std::string& key,
                          const char* what, BlockId block, Caching caching = Caching::kKeep) const;
  // How to load pages.
  struct LoadOptions {
    PageParts parts;
    Caching caching;
  };
  // Loads a page, and sets `bytes` to the stored size of what it read. Several threads may call it
  // at once.
  Result<std::shared_ptr<const Page>> LoadPlaced(const Block& block, std::uint32_t page,
                                                 const Placement* placement,
                                                 const LoadOptions& options,
                                                 std::size_t* bytes) const;
  // Returns what is stored of a page. `placement` is that of the block, or null.
  Result<StoredPage> GetStored(const Block& block, std::uint32_t page, const Placement* placement,
                               const LoadOptions& options) const;

  const RocksSource source_;
  std::uint64_t bytes_read_ = 0;
  std::map<BlockId, std::shared_ptr<const Placement>> placements_;  // that were loaded lately
  // Stands among the records of deleted rows. It is kept because callers ask for block after block.
  std::unique_ptr<rocksdb::Iterator> deleted_;
  bool has_deleted_ = true;  // if false, the slab has no deleted rows
};

}  // namespace topicdb::columnar
