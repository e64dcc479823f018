// Compares the blocks of a slab with each other, with their pages, and with the slab's structures.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/slab_check.h"

namespace topicdb::columnar {

// Checks one slab. Used once. `check` must outlive it. Not thread-safe.
class BlockChecker {
 public:
  BlockChecker(const RocksSource& source, const SlabCheck& check)
      : source_(source), check_(check), reader_(source) {}

  // Checks the slab and reports what it finds. Returns kInterrupted or kStorage.
  Result<CheckCounts> Run();

 private:
  // Lists the entries of blocks, and which records each block has.
  Status ListRecords();
  // Checks that each record belongs to a block that has an entry.
  void CheckRecords();
  // Checks that each page belongs to a block.
  Status CheckPageKeys();
  // Checks that the serials of sealed blocks come before those of fresh blocks.
  void CheckOrder();
  Status CheckBlock(const Block& block);
  Status CheckPages(const Block& block, const Directory& directory);
  // Reads a page and compares it with its entry in the directory. `directory` is null for a fresh
  // block, whose page is compared with the block's entry.
  Status CheckPage(const Block& block, const Directory* directory, std::uint32_t number);
  void CheckRows(const Block& block, const Page& page, std::uint32_t number);
  void SeeTopic(const Page& page, std::uint32_t row, std::uint32_t number);
  void CheckTopics(const Block& block, const Page& page, std::uint32_t number);
  void CheckDeleted(const Block& block, const Directory& directory);
  // Checks that the block's list of topics, if it has one, is that of its pages.
  Status CheckTopicList(const Block& block);

  // If `status` is kCorruption, reports `finding` with its message. Returns any other error.
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
  // How many pages are expected, by the first part of their keys.
  std::map<std::uint64_t, std::uint32_t> pages_;
  // What was seen of the block that is being checked.
  std::string words_;
  Extent extent_;
  std::uint64_t rows_ = 0;
  std::uint64_t bytes_ = 0;
  struct SeenTopic {
    StreamId stream;
    std::string text;
    std::uint32_t page = 0;  // the page that has the topic's last row
    std::int64_t last_time = 0;
  };
  std::vector<SeenTopic> topics_;
};

}  // namespace topicdb::columnar
