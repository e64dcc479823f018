// Finds the messages of a slab whose records and pages are damaged in places.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/merge/rows_by_commit.h"
#include "layout/slab_salvage.h"
#include "rocks/skipping_iterator.h"

namespace topicdb::columnar {

// A block is taken for one of the slab if any record speaks of it; where records are missing, also
// if it only has pages. So a message may be found twice (pages that were being written when the
// process ended, or are about to be removed): what has the same place among the commits is taken
// once. Rows are handed out block by block, in the order of commits; those wait that may be in
// another block, too.
class BlockSalvage {
 public:
  BlockSalvage(const RocksSource& source, const SlabSalvage& call);
  Status Run();

 private:
  // What is known of a block.
  struct Unit {
    BlockId id = 0;                           // 0: only its pages are known
    std::optional<BlockEntry> entry;          // without its filter
    bool is_paged = false;                    // some record says that it has pages of their own
    std::optional<std::uint64_t> pages = {};  // first part of their keys
    // What is to be added to what its pages have, if it is a staged one.
    std::uint64_t serial = 0;
    std::int64_t time_shift = 0;
    std::uint64_t first_serial = 0;  // what it begins with

    bool is_staged() const { return pages.has_value() && *pages >= kStagedPagesMin; }
  };
  // Messages that a block should have.
  struct LostRows {
    BlockId block;  // 0: unknown
    Extent extent;
    Finding finding;
  };
  // What pages without a block say of it.
  struct PagesSummary {
    std::uint32_t pages = 0;
    std::uint64_t rows = 0;
    Extent extent;
  };

  Status ListRecords();
  void TakeRecord(std::string_view key, std::string_view value);
  Status ListPages();
  Status ListUnits();
  // A staged block whose placement is lost gets the pages that can only be its.
  Status MatchStaged(Unit* unit);
  Result<PagesSummary> Summarize(std::uint64_t pages);
  Result<std::uint64_t> FirstSerialOf(const Unit& unit);

  Status Load(const Unit& unit);
  Status LoadPlain(const Unit& unit);
  Status LoadPaged(const Unit& unit);
  Status LoadKnownPages(const Unit& unit, const std::optional<Directory>& directory,
                        const DeletedByPage& deleted);
  Status LoadAnyPages(const Unit& unit, const DeletedByPage& deleted);
  DeletedByPage LoadDeleted(const Unit& unit);
  // kCorruption, kStorage
  Result<std::string> Get(rocksdb::ColumnFamilyHandle* family, const std::string& key) const;
  // Rows that it adds; kCorruption if the page cannot be right.
  Result<std::uint32_t> TakePage(const Unit& unit, std::string bytes, const DeletedRows& deleted);
  // Messages that are lost; what: where they were.
  void Report(BlockId block, const std::string& what, std::uint64_t messages, const Extent& extent,
              std::vector<std::uint32_t> streams = {});
  // Tells of what is lost, but for what was found in pages of no block: a table file that is lost
  // may have had the news that older pages are not needed any more.
  void ReportLost();
  Status Take(const FoundRow& row);

  const RocksSource source_;
  const SlabSalvage& call_;
  BlockReader reader_;
  bool is_incomplete_;
  std::map<BlockId, Unit> blocks_;
  std::set<std::uint64_t> pages_;  // first parts of keys, of those that no block is known to have
  std::vector<Unit> units_;        // by their first commit
  RowsByCommit rows_;
  std::vector<LostRows> lost_;
  std::map<std::uint64_t, std::uint64_t> strays_;  // rows that only stray pages had, by serial
};

}  // namespace topicdb::columnar
