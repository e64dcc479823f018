// What a read may be asked for, and what it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topicdb/message.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// The most that one read may return. A read returns at least one message, however large it is.
struct PageLimits {
  std::size_t rows_max = 1'000;
  std::size_t bytes_max = std::size_t{8} << 20;
  bool with_serials = false;  // whether batches keep the serials of messages
};

// The order in which a scan returns messages.
enum class ScanOrder {
  kStream,  // stream after stream, each by time and commit, older generations first
  kTime,    // all streams merged by timestamp
  kNone,    // as messages are stored, without sorting
};

// Shards that are missing in a handle (OnDamage::kSkip), by number, and why each of them is
// missing.
using MissingReasons = std::map<std::uint32_t, std::string>;

// Options of a scan besides its filters.
struct ScanOptions {
  TimeRange range;
  ScanOrder order = ScanOrder::kStream;
  // The scan reads only these streams. Absent: all streams that may hold messages of the filter.
  std::optional<std::vector<Stream>> streams;
  // If false, the messages have empty values, and stored values are left unread where they are
  // stored apart.
  bool with_values = true;
};

// A part of a slab: the messages of its commits after `after`, up to and including `until`, in a
// range of times. Another process may read it. Later commits are not in it.
struct Slice {
  SlabId slab;
  std::string retention_class;  // its topic filter
  Serial after;
  Serial until;
  TimeRange range;
  std::uint64_t messages = 0;  // an estimate
  std::uint64_t bytes = 0;     // of the topics and values of these messages; an estimate
  LayoutKind layout = LayoutKind::kColumnar;  // of the slab

  bool operator==(const Slice&) const = default;
};

// Says how Database::Slices cuts a database into slices.
struct SliceOptions {
  TimeRange range;
  // For each shard, slices have only commits after `after`, up to and including `until`. A shard
  // that is absent has no such limit.
  std::map<std::uint32_t, Serial> after;
  std::map<std::uint32_t, Serial> until;
  std::uint64_t bytes_max = std::uint64_t{128} << 20;  // of a slice, roughly; at least 1
};

// Counts what reads have done. Blocks and pages are those of the layout columnar; rows are
// messages.
struct ReadCounters {
  std::uint64_t blocks = 0;  // considered
  std::uint64_t blocks_skipped_by_time = 0;
  std::uint64_t blocks_skipped_by_stream = 0;
  std::uint64_t blocks_skipped_by_word = 0;
  std::uint64_t pages = 0;  // of the blocks that were not skipped
  std::uint64_t pages_skipped_by_time = 0;
  std::uint64_t pages_skipped_by_topic = 0;
  std::uint64_t pages_read = 0;
  std::uint64_t bytes_read = 0;  // of pages, as they are stored
  std::uint64_t rows_examined = 0;
  std::uint64_t rows_matched = 0;
  // Rows that overlapped so much in time that they were spilled.
  std::uint64_t rows_spilled = 0;
  std::uint64_t bytes_spilled = 0;

  // Adds each of the other counters to the counter of the same name.
  void Add(const ReadCounters& other);
};

// How much work a read is. Database::Explain reads the messages to find it out.
struct Explanation {
  std::uint64_t slabs = 0;    // that may hold messages in the time range
  std::uint64_t streams = 0;  // that may hold matching topics, in those slabs
  ReadCounters counters;
};

// A generation that was dropped before a reader had its messages.
struct Loss {
  std::uint32_t shard = 0;
  std::string retention_class;
  Generation generation;
  Serial serial;               // of the commit that dropped it
  std::uint64_t messages = 0;  // that the reader was not given, at most
};

// The messages that Database::Next has read of a scan in steps.
struct ScanPage {
  ScanIterator iterator;  // continues after this page
  std::shared_ptr<const Batch> batch;
  bool end_of_scan = false;  // if true, everything was read
  // If this is there, the batch is empty: these messages are lost, and the iterator continues
  // behind them.
  std::optional<Loss> loss;
};

// The messages that Database::Next has read.
struct Page {
  Iterator iterator;  // continues after this page
  std::shared_ptr<const Batch> batch;
  // If true, the slab is read-only and the read has come to the end of the stream.
  bool end_of_stream = false;
};

}  // namespace topicdb
