// Sorts the rows of a merge.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace topicdb::columnar {

// Orders the rows of a merge. MergeOrder (row_spill.h) says what the parts are.
struct RowKey {
  std::uint64_t major = 0;
  std::uint64_t middle = 0;
  std::uint32_t minor = 0;
  auto operator<=>(const RowKey&) const = default;
};

// A row of a merge: its key, and where it is.
struct MergedRow {
  RowKey key;
  std::uint32_t slot;  // the slot of its page
  std::uint32_t row;
};

// Sorts rows by key. Uses a radix sort if there are many rows. The rows of a block come as short
// ascending runs of numbers in a narrow range; to sort those by comparing takes five times as long.
void SortRows(std::vector<MergedRow>* rows);

}  // namespace topicdb::columnar
