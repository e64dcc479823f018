// Finds the messages of a slab in which some records and pages are damaged.
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

// Salvages one slab. `call` must outlive it. Not thread-safe.
//
// It takes a block for one of the slab if any record names it. Where records are missing, it also
// takes blocks of which it finds pages only. Such pages may be those that were being written when
// the process ended, or that were about to be removed. So it may find a message twice, and hands
// out only one message for each place.
//
// It hands out rows block by block, in the order of commits. Rows that may be in another block,
// too, wait for that block.
class BlockSalvage {
 public:
  BlockSalvage(const RocksSource& source, const SlabSalvage& call);
  Status Run();

 private:
  // What is known of a block.
  struct Unit {
    BlockId id = kNoBlock;                    // kNoBlock: only its pages are known
    std::optional<BlockEntry> entry;          // without its filter
    bool is_paged = false;                    // some record says that Block::is_paged()
    std::optional<std::uint64_t> pages = {};  // the first part of the keys of its pages
    // The serial of a staged block, and what to add to the times in its pages.
    std::uint64_t serial = 0;
    std::int64_t time_shift = 0;
    std::uint64_t first_serial = 0;  // the smallest serial of its messages

    bool is_staged() const { return pages.has_value() && *pages >= kStagedPagesMin; }
  };
  // Messages that a block should have, and that cannot be read.
  struct LostRows {
    BlockId block;  // kNoBlock: unknown
    Extent extent;
    Finding finding;
  };
  // What the pages of a block say about it.
  struct PagesSummary {
    std::uint32_t pages = 0;
    std::uint64_t rows = 0;
    Extent extent;
  };

  Status ListRecords();
  void TakeRecord(std::string_view key, std::string_view value);
  Status ListPages();
  Status ListUnits();
  // Finds the pages of a staged block whose placement is lost, by their rows and times.
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
  // Returns kCorruption, also if the record is missing, or kStorage.
  Result<std::string> Get(rocksdb::ColumnFamilyHandle* family, const std::string& key) const;
  // Adds the rows of a page to rows_ and returns their number. Returns kCorruption if the page
  // cannot be right.
  Result<std::uint32_t> TakePage(const Unit& unit, std::string bytes, const DeletedRows& deleted);
  // Notes messages that are lost. `what` says where they were.
  void Report(BlockId block, const std::string& what, std::uint64_t messages, const Extent& extent,
              std::vector<StreamId> streams = {});
  // Reports lost messages, except those that were found in pages of no known block. A lost table
  // file may have had the records that such older pages were replaced.
  void ReportLost();
  Status Take(const FoundRow& row);

  const RocksSource source_;
  const SlabSalvage& call_;
  BlockReader reader_;
  bool is_incomplete_;
  std::map<BlockId, Unit> blocks_;
  std::set<std::uint64_t> pages_;  // first parts of the keys of pages of no known block
  std::vector<Unit> units_;        // by their first commit
  RowsByCommit rows_;
  std::vector<LostRows> lost_;
  std::map<std::uint64_t, std::uint64_t> strays_;  // by serial, how many rows only stray pages had
};

}  // namespace topicdb::columnar
