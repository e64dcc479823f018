// Makes pages whose rows overlap in time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "layout/columnar/format/page_examples.h"

namespace topicdb::columnar {

inline bool IsBefore(const Row& a, const Row& b) {
  return std::tuple(a.time, a.serial, a.index) < std::tuple(b.time, b.serial, b.index);
}

// Makes pages of 300 rows. Each page holds one commit, whose times are anywhere below 10,000.
inline std::vector<Rows> OverlappingPages(int pages, std::size_t value_bytes) {
  std::mt19937_64 random(1);
  std::vector<Rows> made(static_cast<std::size_t>(pages));
  std::uint64_t serial = 1;
  for (Rows& rows : made) {
    for (std::uint32_t i = 0; i < 300; ++i) {
      rows.push_back({1 + i % 3, "t/" + std::to_string(i % 7),
                      static_cast<std::int64_t>(random() % 10'000), serial, i,
                      std::to_string(random()) + std::string(value_bytes, 'v')});
    }
    ++serial;
  }
  return made;
}

inline Rows Sorted(const std::vector<Rows>& pages) {
  Rows all;
  for (const Rows& rows : pages) all.insert(all.end(), rows.begin(), rows.end());
  std::sort(all.begin(), all.end(), IsBefore);
  return all;
}

}  // namespace topicdb::columnar
