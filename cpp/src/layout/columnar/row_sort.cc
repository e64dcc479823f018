#include "layout/columnar/row_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace topicdb::columnar {

namespace {

constexpr std::size_t kRadixMin = 1'024;  // fewer are compared
constexpr unsigned kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

struct Item {
  std::uint64_t major;  // above the smallest
  std::uint32_t row;
};

bool ByKey(const MergedRow& a, const MergedRow& b) { return a.key < b.key; }

// Least significant digit first; stable.
void RadixSort(unsigned bits, std::vector<Item>* items) {
  std::vector<Item> sorted(items->size());
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    const auto digit = [&](const Item& item) { return (item.major >> shift) % kDigits; };
    std::array<std::size_t, kDigits> next{};
    for (const Item& item : *items) ++next[digit(item)];
    std::size_t begin = 0;
    for (std::size_t& count : next) {
      const std::size_t rows = count;
      count = begin;
      begin += rows;
    }
    for (const Item& item : *items) sorted[next[digit(item)]++] = item;
    items->swap(sorted);
  }
}

}  // namespace

void SortRows(std::vector<MergedRow>* rows) {
  if (std::is_sorted(rows->begin(), rows->end(), ByKey)) return;
  if (rows->size() < kRadixMin) {
    std::sort(rows->begin(), rows->end(), ByKey);
    return;
  }
  const auto [first, last] = std::minmax_element(
      rows->begin(), rows->end(),
      [](const MergedRow& a, const MergedRow& b) { return a.key.major < b.key.major; });
  const std::uint64_t smallest = first->key.major;
  const auto bits = static_cast<unsigned>(std::bit_width(last->key.major - smallest));
  std::vector<Item> items;
  items.reserve(rows->size());
  for (std::uint32_t row = 0; row < rows->size(); ++row) {
    items.push_back({(*rows)[row].key.major - smallest, row});
  }
  RadixSort(bits, &items);
  std::vector<MergedRow> sorted;
  sorted.reserve(rows->size());
  for (const Item& item : items) sorted.push_back((*rows)[item.row]);
  rows->swap(sorted);

  // Rows with equal majors are still in the order in which they came.
  for (auto begin = rows->begin(); begin != rows->end();) {
    auto end = begin + 1;
    while (end != rows->end() && end->key.major == begin->key.major) ++end;
    if (end - begin > 1) std::sort(begin, end, ByKey);
    begin = end;
  }
}

}  // namespace topicdb::columnar
