#include "layout/columnar/merge/row_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace topicdb::columnar {
namespace {

using MakeMajor = std::function<std::uint64_t(std::size_t row, std::uint64_t noise)>;

void ExpectSorted(const MakeMajor& major, std::uint64_t middles, bool minors_fall) {
  std::mt19937_64 random(1);
  for (const std::uint32_t size : {0, 1, 2, 3, 100, 1'023, 1'024, 1'025, 5'000}) {
    std::vector<MergedRow> rows;
    for (std::uint32_t row = 0; row < size; ++row) {
      const std::uint32_t minor = minors_fall ? size - row : row;
      rows.push_back({{major(row, random()), random() % middles, minor}, row % 5, row});
    }
    auto expected = rows;
    std::sort(expected.begin(), expected.end(),
              [](const MergedRow& a, const MergedRow& b) { return a.key < b.key; });
    SortRows(&rows);
    ASSERT_EQ(rows.size(), size);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(rows[i].key, expected[i].key) << size << " " << i;
      ASSERT_EQ(rows[i].row, expected[i].row);
      ASSERT_EQ(rows[i].slot, expected[i].slot);
    }
  }
}

// Compares SortRows with std::sort. The rows lie on both sides of the limits at which SortRows
// changes its method: few and many rows, and middle parts that the first sort includes or does not.
void ExpectSorted(const MakeMajor& major) {
  for (const std::uint64_t middles :
       {std::uint64_t{1}, std::uint64_t{9}, std::uint64_t{1} << 20, ~std::uint64_t{0}}) {
    for (const bool minors_fall : {false, true}) ExpectSorted(major, middles, minors_fall);
  }
}

TEST(RowSort, WideMajors) {
  ExpectSorted([](std::size_t, std::uint64_t noise) { return noise; });
}

TEST(RowSort, TheSmallestAndTheLargestMajor) {
  ExpectSorted([](std::size_t, std::uint64_t noise) { return noise % 2 == 0 ? 0 : ~noise | 1; });
  ExpectSorted([](std::size_t, std::uint64_t noise) { return noise % 2 - 1; });
}

TEST(RowSort, MajorsInANarrowRangeFarFromZero) {
  constexpr std::uint64_t kNow = 1'700'000'000'000'000;
  for (const std::uint64_t range : {2, 2'047, 2'048, 2'049, 1 << 22, (1 << 22) + 1}) {
    ExpectSorted([&](std::size_t, std::uint64_t noise) { return kNow + noise % range; });
  }
}

TEST(RowSort, EqualMajors) {
  ExpectSorted([](std::size_t, std::uint64_t) { return 7; });
}

TEST(RowSort, RunsThatAscend) {
  ExpectSorted([](std::size_t row, std::uint64_t) { return row; });
  ExpectSorted([](std::size_t row, std::uint64_t) { return 100'000 - row; });
  ExpectSorted([](std::size_t row, std::uint64_t) { return row % 300; });
}

}  // namespace
}  // namespace topicdb::columnar
