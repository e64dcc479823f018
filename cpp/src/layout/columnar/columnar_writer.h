// Writes fresh blocks. The messages that a group of commits brings to one slab become one block, or
// several blocks if they are many.
#pragma once

#include <cstdint>

#include "layout/columnar/format/page.h"
#include "layout/layout.h"

namespace topicdb::columnar {

class ColumnarWriter : public SlabWriter {
 public:
  ColumnarWriter(const SlabFamilies& families, LayoutState* state, const ExpectedWrites& expected,
                 rocksdb::WriteBatch* batch);

  rocksdb::Status Add(const PlacedMessage& message) override;
  rocksdb::Status Finish() override;
  void Apply() override;

 private:
  rocksdb::Status WriteBlock();

  rocksdb::ColumnFamilyHandle* const family_;
  LayoutState* const state_;
  rocksdb::WriteBatch* const batch_;
  PlainPageBuilder page_;
  std::uint64_t page_number_;  // see TopicMark
  std::uint64_t blocks_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace topicdb::columnar
