// Reads all of a database, and takes the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <xxhash.h>

#include "topicdb/database.h"

namespace topicdb::replication {

// Returns "ok", the number of messages, a hash of their values in the order of the scan, and how
// many microseconds the scan took; or why it failed.
inline std::string TimeScan(const Database& database) {
  const auto began = std::chrono::steady_clock::now();
  const auto scan = database.NewScan(Filter::Parse("#").value(), ScanOptions());
  if (!scan.ok()) return scan.status().message();
  std::uint64_t rows = 0;
  std::uint64_t hash = 0;
  for (;;) {
    const auto batch = (*scan)->Next(PageLimits());
    if (!batch.ok()) return batch.status().message();
    if (*batch == nullptr) break;
    for (std::size_t row = 0; row < (*batch)->size(); ++row) {
      const auto value = (*batch)->value(row);
      hash = XXH3_64bits_withSeed(value.data(), value.size(), hash);
    }
    rows += (*batch)->size();
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  return "ok " + std::to_string(rows) + " " + std::to_string(hash) + " " +
         std::to_string(static_cast<std::int64_t>(took.count()));
}

}  // namespace topicdb::replication
