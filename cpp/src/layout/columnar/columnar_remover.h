// Deletes single messages of blocks. Records beside a block say which rows of its pages are
// deleted, until sealing leaves those rows out.
#pragma once

#include <cstddef>
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
                     Serial serial_max, std::size_t* removed) override;
  Status Finish() override;

 private:
  // A block, and the number of a page in it.
  using PlaceOfPage = std::pair<BlockId, std::uint32_t>;
  // What one call of Remove or RemovePoint wants, and where it begins and ends.
  struct Call {
    TopicSelector topics;
    RowSelector rows;
    std::size_t removed_max;               // up to this number of removed rows
    RemovalProgress* progress = nullptr;   // see SlabRemover::GoOnFrom
    std::size_t* examined_left = nullptr;  // see SlabRemover::LimitExamined
  };

  // Does the work of Remove and RemovePoint.
  Result<bool> RemoveWanted(const Call& call, std::size_t* removed);
  // Does that for one block.
  Result<bool> RemoveFromBlock(const Call& call, const Block& block, BlockReader* reader,
                               std::size_t* removed);
  // Adds the wanted rows of the page to `deleted`, and their number to `removed`. Returns false if
  // the page has more of them than the call removes.
  static bool RemoveFromPage(const Call& call, const Page& page, DeletedRows* deleted,
                             std::size_t* removed);
  // Notes that the next call has to go on with this page. Always returns false.
  static bool EndAt(const Call& call, const PlaceOfPage& place);

  const RocksSource source_;
  rocksdb::WriteBatch* const batch_;
  std::map<PlaceOfPage, DeletedRows> changed_;  // all deleted rows of the changed pages
};

}  // namespace topicdb::columnar
