// Checks the blocks of a slab against each other, their pages, and the slab's structures.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "layout/columnar/block_reader.h"
#include "layout/slab_check.h"

namespace topicdb::columnar {

// Not thread-safe; used once.
class BlockChecker {
 public:
  BlockChecker(const RocksSource& source, const SlabCheck& check)
      : source_(source), check_(check), reader_(source) {}

  // Reports what it finds. kInterrupted, kStorage.
  Result<CheckCounts> Run();

 private:
  // Entries, and of which blocks there are what records.
  Status ListRecords();
  // That each record has a block, and each block its records.
  void CheckRecords();
  // That each page has a block.
  Status CheckPageKeys();
  // That serials of sealed blocks come before those of fresh ones.
  void CheckOrder();
  Status CheckBlock(const Block& block);
  Status CheckPages(const Block& block, const Directory& directory);
  // Reads a page and compares it with its entry in the directory (null for a fresh block).
  Status CheckPage(const Block& block, const Directory* directory, std::uint32_t number);
  void CheckRows(const Block& block, const Page& page, const std::string& what);
  void CheckTopics(const Block& block, const Page& page, const std::string& what);
  void CheckDeleted(const Block& block, const Directory& directory);

  // Reports what of a record cannot be read; passes on what is no damage.
  Status Note(const Status& status, Finding finding);
  void Report(const Block& block, const std::string& what);
  Finding Lost(const Block& block) const;
  Finding Lost(const Block& block, const Directory& directory, std::uint32_t page) const;

  const RocksSource source_;
  const SlabCheck& check_;
  BlockReader reader_;
  CheckCounts counts_;
  std::map<BlockId, Block> sealed_;
  std::map<BlockId, Block> fresh_;
  std::map<RecordKind, std::set<BlockId>> records_;
  std::map<std::uint64_t, std::uint32_t> pages_;  // expected by first part of their keys
  // Of the block that is checked.
  std::string words_;
  Extent extent_;
  std::uint64_t rows_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace topicdb::columnar
