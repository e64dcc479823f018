// Writes fresh blocks. The messages that a group of commits brings to one slab become one block, or
// several blocks if they are many.
#pragma once

#include <cstdint>

#include "layout/columnar/format/page.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Gathers messages in one plain page, which becomes a block when it is large enough and in Finish.
// The caller of NewWriter owns it. Not thread-safe.
class ColumnarWriter : public SlabWriter {
 public:
  ColumnarWriter(const SlabFamilies& families, LayoutState* state, const ExpectedWrites& expected,
                 rocksdb::WriteBatch* batch);

  rocksdb::Status Add(const PlacedMessage& message) override;
  rocksdb::Status Finish() override;
  void Apply() override;

 private:
  // Adds the page to the batch as a fresh block, and begins a new page.
  // REQUIRES: the page has at least one row
  rocksdb::Status WriteBlock();

  rocksdb::ColumnFamilyHandle* const family_;
  LayoutState* const state_;
  rocksdb::WriteBatch* const batch_;
  PlainPageBuilder page_;
  std::uint64_t page_number_;  // see TopicMark
  std::uint64_t blocks_ = 0;   // that were added to the batch
  std::uint64_t bytes_ = 0;    // of topics and values in these blocks
};

}  // namespace topicdb::columnar
