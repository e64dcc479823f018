// Deletes single messages of blocks. Records beside a block say which rows of its pages are
// deleted, until sealing leaves those rows out.
#pragma once

#include <map>
#include <utility>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/select/row_selector.h"
#include "layout/columnar/select/topic_selector.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Collects the deleted rows of each page, and adds their records to the batch in Finish. The caller
// of NewRemover owns it. Not thread-safe.
class ColumnarRemover : public SlabRemover {
 public:
  ColumnarRemover(const RocksSource& source, rocksdb::WriteBatch* batch)
      : source_(source), batch_(batch) {}

  Result<bool> Remove(const ReadRequest& request, std::size_t rows_max,
                      std::size_t* removed) override;
  Status RemovePoint(const PlacedMessage& place, const std::vector<RowMask>& masks,
                     std::uint64_t serial_max, std::size_t* removed) override;
  Status Finish() override;

 private:
  // A block, and the number of a page in it.
  using PlaceOfPage = std::pair<BlockId, std::uint32_t>;
  // Selects the rows of one request.
  struct Wanted {
    TopicSelector topics;
    RowSelector rows;
  };

  // Does the work of Remove for one block, up to where `removed` is `removed_max`.
  Result<bool> RemoveFromBlock(const Wanted& wanted, const Block& block, BlockReader* reader,
                               std::size_t removed_max, std::size_t* removed);
  // Adds to `deleted` at most `rows_max` wanted rows of the page, and sets `removed` to their
  // number. Returns false if the page has more of them.
  Result<bool> RemoveFromPage(const TopicSelector& selector, const RowSelector& wanted,
                              const Page& page, DeletedRows* deleted, std::size_t rows_max,
                              std::size_t* removed) const;

  const RocksSource source_;
  rocksdb::WriteBatch* const batch_;
  std::map<PlaceOfPage, DeletedRows> changed_;  // all deleted rows of the changed pages
};

}  // namespace topicdb::columnar
