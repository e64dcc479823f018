// Sorts rows of any pages into the order of a sealed block.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page.h"

namespace topicdb::columnar {

// A page whose rows SortByTopic sorts, without its deleted rows.
struct PageToSort {
  std::shared_ptr<const Page> page;
  DeletedRows deleted;
};

// Says where a row came from: which of the pages, and which row of that page.
struct RowOrigin {
  std::uint32_t page;
  std::uint32_t row;
  auto operator<=>(const RowOrigin&) const = default;
};

// Rows sorted by stream, topic, timestamp, serial and index. They point into the pages, which must
// outlive them.
struct SortedRows {
  std::vector<PackedRow> rows;
  std::vector<RowOrigin> origins;  // the origin of each row
};

// Returns all rows of the pages that are not deleted, sorted.
SortedRows SortByTopic(const std::vector<PageToSort>& pages);

}  // namespace topicdb::columnar
