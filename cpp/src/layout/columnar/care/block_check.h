// Checks the blocks of a slab against each other, their pages, and the slab's structures.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "layout/columnar/block/block_reader.h"
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
  void CheckRows(const Block& block, const Page& page, std::uint32_t number);
  void SeeTopic(const Page& page, std::uint32_t row, std::uint32_t number);
  void CheckTopics(const Block& block, const Page& page, std::uint32_t number);
  void CheckDeleted(const Block& block, const Directory& directory);
  // That the list of its topics, if it has one, is that of its pages.
  Status CheckTopicList(const Block& block);

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
  struct SeenTopic {
    std::uint32_t stream = 0;
    std::string text;
    std::uint32_t page = 0;  // that has its last row
    std::int64_t last_time = 0;
  };
  std::vector<SeenTopic> topics_;
};

}  // namespace topicdb::columnar
