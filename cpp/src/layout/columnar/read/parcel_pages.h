// Reads blocks for parcels, page by page (layout/parcels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/select/block_query.h"
#include "layout/parcels.h"

namespace topicdb::columnar {

// Reads the messages that any of several requests wants. A page of which every row is wanted goes
// into the parcel as it is stored, and its values are not decompressed. Of other pages, the wanted
// rows become a page of their own. The caller of NewParcelSource owns it. Not thread-safe.
class ParcelPages : public ParcelSource {
 public:
  ParcelPages(const RocksSource& source, const std::vector<ReadRequest>& any_of);

  Result<ReadOutcome> ReadParcel(const ReadLimits& limits, ParcelBuilder* out) override;
  ReadCounters counters() const override;

 private:
  // Fills blocks_.
  Status List();
  // Moves to the next page that may have wanted rows. Returns false at the end.
  Result<bool> NextPage();
  // Finds out which pages of a block to read, which of these are wanted whole, and which rows of
  // the block are deleted.
  Status OpenBlock(const Block& block);
  // Adds the page at page_, or its wanted rows. AddStored does so without the names in errors.
  Status AddPage(ParcelBuilder* out);
  Status AddStored(const Block& block, ParcelBuilder* out);
  // Returns the rows of the page at page_ that are wanted.
  Result<std::vector<std::uint32_t>> WantedRows(const StoredPage& stored,
                                                const Placement* placement) const;
  // Adds these rows of a page.
  Status AddRowsOf(const StoredPage& stored, const Placement* placement,
                   const std::vector<std::uint32_t>& rows, ParcelBuilder* out) const;

  // A page of the block before next_block_ that may have wanted rows.
  struct Candidate {
    std::uint32_t number;
    std::uint32_t rows;
    bool is_whole;  // whether all its rows are wanted, as far as this is known without the page
  };

  const BlockQuery query_;
  const PageParts parts_;
  BlockReader reader_;
  ReadCounters counters_;

  bool listed_ = false;
  std::vector<Block> blocks_;
  std::size_t next_block_ = 0;
  std::vector<Candidate> pages_;
  std::size_t page_ = 0;  // index in pages_ of the next page to add
  DeletedByPage deleted_;
};

}  // namespace topicdb::columnar
