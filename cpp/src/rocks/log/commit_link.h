// The link at the end of each batch that is in a log: 16 bytes, little-endian.
//
//   number   8   how many batches the process wrote to the log before, since it opened the RocksDB
//   session  4   a random number of the opening
//   "TDBL"   4
//
// With it, CheckLogs finds that a batch is missing between two others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace topicdb::rocks {

// The numbers of a link.
struct CommitLink {
  std::uint64_t number = 0;
  std::uint32_t session = 0;
};

// Returns what the batch gets as log data (WriteBatch::PutLogData).
std::string Encode(const CommitLink& link);
// Returns the link of a record of a log, or nothing if it has none.
std::optional<CommitLink> LinkOf(std::string_view record);

}  // namespace topicdb::rocks
