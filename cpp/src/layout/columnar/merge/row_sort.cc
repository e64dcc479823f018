#include "layout/columnar/merge/row_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace topicdb::columnar {

namespace {

constexpr std::size_t kRadixMin = 1'024;  // fewer rows are sorted by comparing
constexpr unsigned kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

// A sort by both parts takes another pass or two. With more bits than this, it would take as long
// as to sort rows with equal majors by comparing.
constexpr unsigned kBothBitsMax = 3 * kDigitBits;

struct Item {
  std::uint64_t key;
  std::uint32_t row;
};

bool ByKey(const MergedRow& a, const MergedRow& b) { return a.key < b.key; }

// The smallest value that a part of the keys has, and how many bits the difference of the largest
// to it has.
struct Bounds {
  std::uint64_t smallest;
  unsigned bits;
};

Bounds BoundsOf(const std::vector<MergedRow>& rows, std::uint64_t RowKey::* part) {
  const auto [first, last] = std::minmax_element(
      rows.begin(), rows.end(),
      [&](const MergedRow& a, const MergedRow& b) { return a.key.*part < b.key.*part; });
  const std::uint64_t smallest = first->key.*part;
  return {smallest, static_cast<unsigned>(std::bit_width(last->key.*part - smallest))};
}

// Sorts the items by their keys, beginning with the least significant digit. Keeps the order of
// equal keys.
void RadixSort(unsigned bits, std::vector<Item>* items) {
  std::vector<Item> sorted(items->size());
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    const auto digit = [&](const Item& item) { return (item.key >> shift) % kDigits; };
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

// Sorts rows with equal majors by the rest of their keys. REQUIRES: rows are sorted by their majors
void SortEqual(std::vector<MergedRow>* rows) {
  for (auto begin = rows->begin(); begin != rows->end();) {
    auto end = begin + 1;
    while (end != rows->end() && end->key.major == begin->key.major) ++end;
    if (end - begin > 1 && !std::is_sorted(begin, end, ByKey)) std::sort(begin, end, ByKey);
    begin = end;
  }
}

}  // namespace

void SortRows(std::vector<MergedRow>* rows) {
  if (std::is_sorted(rows->begin(), rows->end(), ByKey)) return;
  if (rows->size() < kRadixMin) {
    std::sort(rows->begin(), rows->end(), ByKey);
    return;
  }
  const Bounds major = BoundsOf(*rows, &RowKey::major);
  const Bounds middle = BoundsOf(*rows, &RowKey::middle);
  const bool has_both = major.bits + middle.bits <= kBothBitsMax;
  std::vector<Item> items;
  items.reserve(rows->size());
  for (std::uint32_t row = 0; row < rows->size(); ++row) {
    const RowKey& key = (*rows)[row].key;
    const std::uint64_t above = key.major - major.smallest;
    items.push_back(
        {has_both ? above << middle.bits | (key.middle - middle.smallest) : above, row});
  }
  RadixSort(has_both ? major.bits + middle.bits : major.bits, &items);
  std::vector<MergedRow> sorted;
  sorted.reserve(rows->size());
  for (const Item& item : items) sorted.push_back((*rows)[item.row]);
  rows->swap(sorted);
  SortEqual(rows);
}

}  // namespace topicdb::columnar
