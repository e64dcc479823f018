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

// Checks one slab, once. Lives during one call of Layout::Check, whose arguments must outlive it.
// Not thread-safe.
class BlockChecker {
 public:
  BlockChecker(const RocksSource& source, const SlabCheck& check)
      : source_(source), check_(check), reader_(source) {}

  // Checks the slab and reports what it finds. Returns kInterrupted or kStorage.
  Result<CheckCounts> Run();

 private:
  // Lists the entries of blocks, and which records each block has.
  Status ListRecords();
  // Checks that each record, except one of deleted rows, belongs to a block that has an entry.
  void CheckRecords();
  // Checks that each stored page belongs to a block that was checked, or to one that is not visible
  // yet.
  Status CheckPageKeys();
  // Checks that no fresh block has a commit before the last commit of the sealed blocks.
  void CheckOrder();
  // Checks the records of a block and, if the check is deep, its pages.
  Status CheckBlock(const Block& block);
  // Does the same for a paged block whose directory could be read.
  Status CheckPages(const Block& block, const Directory& directory);
  // Reads a page and compares it with its entry in the directory. `directory` is null for a fresh
  // block, whose page is compared with the block's entry.
  Status CheckPage(const Block& block, const Directory* directory, std::uint32_t number);
  // Checks that the rows of a page of a sealed block are sorted, and adds the rows to what was
  // seen.
  void CheckRows(const Block& block, const Page& page, std::uint32_t number);
  // Adds a row to topics_.
  void SeeTopic(const Page& page, std::uint32_t row, std::uint32_t number);
  // Checks that the filters of the block know the topics of a page, and that each topic has the
  // right stream.
  void CheckTopics(const Block& block, const Page& page, std::uint32_t number);
  // Checks that the block has all rows that its records say are deleted.
  void CheckDeleted(const Block& block, const Directory& directory);
  // Checks that the block's list of topics, if it has one, is that of its pages.
  Status CheckTopicList(const Block& block);

  // If `status` is kCorruption, reports `finding` with the message of `status` and returns OK.
  // Otherwise returns `status`.
  Status Note(const Status& status, Finding finding);
  // Reports a fault of a block.
  void Report(const Block& block, const std::string& what);
  // Return a finding that says that all messages of a block or of one of its pages are lost.
  Finding Lost(const Block& block) const;
  Finding Lost(const Block& block, const Directory& directory, std::uint32_t page) const;

  const RocksSource source_;
  const SlabCheck& check_;
  BlockReader reader_;
  CheckCounts counts_;
  std::map<BlockId, Block> sealed_;
  std::map<BlockId, Block> fresh_;
  std::map<RecordKind, std::set<BlockId>> records_;  // which blocks have a record of the kind
  // Which records of pages are expected of a block.
  struct PagesOf {
    std::uint32_t count = 0;
    bool has_value_records = false;

    // Returns whether the block has a record with this last part of its key.
    bool Has(std::uint32_t record) const {
      return record < count ||
             (has_value_records && record >= kValuesBegin && record - kValuesBegin < count);
    }
  };
  std::map<std::uint64_t, PagesOf> pages_;  // by the first part of their keys
  // What was seen of the block that is being checked. extent_ is that of the page that was
  // checked last.
  std::string words_;
  Extent extent_;
  std::uint64_t rows_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t value_bytes_ = 0;
  // A topic that the pages of the block have.
  struct SeenTopic {
    StreamId stream;
    std::string text;
    std::uint32_t page = 0;  // the page that has the topic's last row
    std::int64_t last_time = 0;
  };
  std::vector<SeenTopic> topics_;
};

}  // namespace topicdb::columnar
