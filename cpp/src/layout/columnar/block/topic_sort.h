// Brings rows of any pages into the order of a sealed block.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page.h"

namespace topicdb::columnar {

// A page whose rows are wanted, but for those that are deleted.
struct PageToSort {
  std::shared_ptr<const Page> page;
  DeletedRows deleted;
};

// Where a row was: in which of the pages, and at which place of it.
struct RowOrigin {
  std::uint32_t page;
  std::uint32_t row;
  auto operator<=>(const RowOrigin&) const = default;
};

// Rows sorted by stream, topic, timestamp, serial and index. They point into the pages.
struct SortedRows {
  std::vector<PackedRow> rows;
  std::vector<RowOrigin> origins;  // of each row
};

SortedRows SortByTopic(const std::vector<PageToSort>& pages);

}  // namespace topicdb::columnar
