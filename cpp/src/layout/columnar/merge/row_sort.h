// Sorting the rows of a merge.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace topicdb::columnar {

// Place of a row in the order of a merge.
struct RowKey {
  std::uint64_t major = 0;
  std::uint64_t middle = 0;
  std::uint32_t minor = 0;
  auto operator<=>(const RowKey&) const = default;
};

struct MergedRow {
  RowKey key;
  std::uint32_t slot;  // of its page
  std::uint32_t row;
};

// By key. By radix where there are many: rows of a block come as short ascending runs of numbers in
// a narrow range, which comparing takes five times as long to sort.
void SortRows(std::vector<MergedRow>* rows);

}  // namespace topicdb::columnar
