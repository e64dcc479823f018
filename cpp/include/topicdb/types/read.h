// Reading: what a read may be asked for, and what it gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topicdb/types/iterator.h"
#include "topicdb/message.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// How much one read may return. At least one message comes back however large it is.
struct PageLimits {
  std::size_t rows_max = 1'000;
  std::size_t bytes_max = std::size_t{8} << 20;
  bool with_serials = false;  // of batches: whether they keep them
};

enum class ScanOrder {
  kStream,  // stream after stream, each by time and commit, older generations first
  kTime,    // all streams merged by timestamp
  kNone,    // as messages are stored: nothing is sorted
};

struct ScanOptions {
  TimeRange range;
  ScanOrder order = ScanOrder::kStream;
  // Only these streams; absent: all that the filter may find.
  std::optional<std::vector<Stream>> streams;
};

// A part of a slab: messages of its commits behind `after` up to `until`, in a range of time. Can
// be sent to another process and read there; what is committed meanwhile is not in it.
struct Slice {
  SlabId slab;
  std::string retention_class;  // its topic filter
  std::uint64_t after = 0;
  std::uint64_t until = 0;
  TimeRange range;
  std::uint64_t messages = 0;  // about
  std::uint64_t bytes = 0;     // of their topics and values, about

  bool operator==(const Slice&) const = default;
};

struct SliceOptions {
  TimeRange range;
  // Of each shard: only commits behind the first and up to the second; absent: all that there are.
  std::map<std::uint32_t, std::uint64_t> after;
  std::map<std::uint32_t, std::uint64_t> until;
  std::uint64_t bytes_max = std::uint64_t{128} << 20;  // of a slice, about; at least 1
};

// What reads did. Blocks and pages are those of the layout columnar; rows are messages.
struct ReadCounters {
  std::uint64_t blocks = 0;  // considered
  std::uint64_t blocks_skipped_by_time = 0;
  std::uint64_t blocks_skipped_by_stream = 0;
  std::uint64_t blocks_skipped_by_word = 0;
  std::uint64_t pages = 0;  // of the blocks that are left
  std::uint64_t pages_skipped_by_time = 0;
  std::uint64_t pages_skipped_by_topic = 0;
  std::uint64_t pages_read = 0;
  std::uint64_t bytes_read = 0;  // of pages, as they are stored
  std::uint64_t rows_examined = 0;
  std::uint64_t rows_matched = 0;
  // What overlapped so much in time that it waited in a temporary file.
  std::uint64_t rows_spilled = 0;
  std::uint64_t bytes_spilled = 0;

  void Add(const ReadCounters& other);
};

// How a read would go, found by doing it.
struct Explanation {
  std::uint64_t slabs = 0;    // that may hold messages in the time range
  std::uint64_t streams = 0;  // that may hold matching topics, in those slabs
  ReadCounters counters;
};

struct Page {
  Iterator iterator;  // where to go on
  std::shared_ptr<const Batch> batch;
  bool end_of_stream = false;  // a read-only generation, read to its end
};

}  // namespace topicdb
