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

// Salvages one slab, once. Lives during one call of Layout::Salvage, whose arguments must outlive
// it. Not thread-safe.
//
// The salvage takes a block for one of the slab if any record names the block. If records are
// missing, the salvage also takes blocks of which it finds only pages. Such pages may be stray
// ones: they were being written when the process ended, or were about to be removed. So the salvage
// may find a message twice, and hands out only one message for each place.
//
// The salvage hands out rows block by block, in the order of commits. Rows wait as long as a block
// that comes later may have rows of the same commits.
class BlockSalvage {
 public:
  BlockSalvage(const RocksSource& source, const SlabSalvage& call);
  // Hands out the messages that can be read, and reports the lost ones. Returns kStorage, or an
  // error of SlabSalvage::take.
  Status Run();

 private:
  // A block to salvage, as far as it is known.
  struct Unit {
    BlockId id = kNoBlock;                    // kNoBlock: only its pages are known
    std::optional<BlockEntry> entry;          // without its filter
    bool is_paged = false;                    // some record says that Block::is_paged()
    std::optional<std::uint64_t> pages = {};  // the first part of the keys of its pages
    // The serial of a staged block, and what to add to the times in its pages.
    Serial serial = kNoSerial;
    std::int64_t time_shift = 0;
    Serial first_serial = kNoSerial;  // the smallest serial of its messages
    bool has_own_record = false;      // some record of it is known, besides those of deleted rows

    // Returns true if the pages are known to be those of a staged block.
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

  // Fills blocks_ with the blocks that records name.
  Status ListRecords();
  // Adds what one record says to blocks_. Ignores a record of no known kind.
  void TakeRecord(std::string_view key, std::string_view value);
  // Fills pages_ with the numbers of all stored pages.
  Status ListPages();
  // Matches blocks with their pages, and fills units_, sorted.
  Status ListUnits();
  // Finds the pages of a staged block whose placement is lost: they have as many rows and as wide a
  // range of times as its entry or directory says. Leaves the unit as it is if there are none.
  Status MatchStaged(Unit* unit);
  // Reads the pages with this number, without the damaged ones.
  Result<PagesSummary> Summarize(std::uint64_t pages);
  // Returns the smallest serial of the block's messages, or kNoSerial if nothing tells it.
  Result<Serial> FirstSerialOf(const Unit& unit);

  // Adds the rows of a block that can be read to rows_, and notes the lost ones. The other methods
  // do this for one kind of block: LoadPlain for a fresh block with one page, LoadPaged for any
  // other.
  Status Load(const Unit& unit);
  Status LoadPlain(const Unit& unit);
  Status LoadPaged(const Unit& unit);
  // LoadKnownPages is for a block whose directory or entry says how many pages it has. LoadAnyPages
  // loads all pages that are stored.
  Status LoadKnownPages(const Unit& unit, const std::optional<Directory>& directory,
                        const DeletedByPage& deleted);
  Status LoadAnyPages(const Unit& unit, const DeletedByPage& deleted);
  // Returns the deleted rows of a block. If their record is damaged, reports that and returns none.
  DeletedByPage LoadDeleted(const Unit& unit);
  // Returns the value of a key. Returns kCorruption if it is damaged or missing, or kStorage.
  Result<std::string> Get(rocksdb::ColumnFamilyHandle* family, const std::string& key) const;
  // Returns what is stored of a page. `pages` is the first part of its key. Returns kCorruption if
  // its only record or that of its keys is damaged or missing. If that of its values is, returns
  // the page without it: the decoder knows whether it has any.
  Result<StoredPage> GetPage(std::uint64_t pages, std::uint32_t number) const;
  // Adds the rows of a page to rows_ and returns their number. Returns kCorruption if the page
  // cannot be right.
  Result<std::uint32_t> TakePage(const Unit& unit, StoredPage stored, const DeletedRows& deleted);
  // Notes messages that are lost. `what` says where they were.
  void Report(BlockId block, const std::string& what, std::uint64_t messages, const Extent& extent,
              std::vector<StreamId> streams = {});
  // Reports lost messages, except those that were found in pages of no known block. A lost table
  // file may have had the records that such older pages were replaced.
  void ReportLost();
  // Hands out a row.
  Status Take(const FoundRow& row);

  const RocksSource source_;
  const SlabSalvage& call_;
  BlockReader reader_;
  bool is_incomplete_;
  std::map<BlockId, Unit> blocks_;
  std::set<std::uint64_t> pages_;  // first parts of the keys of pages that no block has yet
  std::vector<Unit> units_;        // by their first commit
  RowsByCommit rows_;
  std::vector<LostRows> lost_;
  std::map<Serial, std::uint64_t> strays_;  // by serial, how many rows only stray pages had
};

}  // namespace topicdb::columnar
