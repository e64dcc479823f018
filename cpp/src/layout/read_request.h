// What to read of a slab, and where.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>

#include "structure/structure.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"

namespace topicdb::rocks {
class ShardLog;
}

namespace topicdb {

// The column families of a slab.
struct SlabFamilies {
  rocksdb::ColumnFamilyHandle* main;
  rocksdb::ColumnFamilyHandle* sealed;  // keys that a layout writes in ascending order; null if
                                        // the layout has none
};

// Says where to read: in which database, at which moment, and from which column families. Whoever
// made the source keeps the snapshot and the families alive as long as something reads from it.
struct RocksSource {
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;  // null: now
  SlabFamilies families;
  rocks::ShardLog* log = nullptr;  // writes to the database; null: the source is only read
};

// Hides messages that may still be stored, such as deleted ones. It hides those that match `filter`
// and `range`, and that a commit from `serial_min` to `serial` wrote.
struct RowMask {
  Filter filter;
  TimeRange range;
  Serial serial;
  Serial serial_min = kNoSerial;
  // Of the commit `serial`, only messages with numbers up to this one are hidden.
  std::uint32_t index_max = std::numeric_limits<std::uint32_t>::max();

  // Returns whether the mask is for messages of this commit with this number in it.
  bool Reaches(Serial of_serial, std::uint32_t index) const {
    return of_serial >= serial_min &&
           (of_serial < serial || (of_serial == serial && index <= index_max));
  }
  // Returns whether the mask hides a message of the commit `of_serial` with this number in it.
  bool Hides(std::string_view topic, std::int64_t timestamp, Serial of_serial,
             std::uint32_t index) const {
    return Reaches(of_serial, index) && Contains(range, timestamp) && filter.Matches(topic);
  }
};

// The memory that all reads of one call may take together.
inline constexpr std::size_t kReadMemoryBytes = std::size_t{112} << 20;

// Says what to read: streams of one slab, merged in the order of a stream.
struct ReadRequest {
  // The streams to read, sorted. If absent, all streams. The layout skipstream reads exactly one.
  std::optional<std::vector<StreamId>> streams;
  Structure structure;  // of the only stream; used only if Layout::reads_one_stream()
  Filter filter;
  TimeRange range;
  Position position;
  std::vector<RowMask> masks = {};
  // The read returns no message of a later commit.
  Serial serial_max = kLastSerial;
  // Bounds the decoded messages in memory. A single message that is larger may exceed it.
  std::size_t memory_bytes_max = kReadMemoryBytes;
  // An unordered read returns no message of an earlier commit. A LogReader takes such a bound as an
  // argument instead.
  Serial serial_min = kNoSerial;
  // A message may match one of these instead of `filter`. Only readers in order and LastReaders
  // use them.
  std::vector<Filter> or_filters = {};
  // If false, the messages have empty values, and a layout that can leave the stored values unread
  // does so. LastReaders give values in any case.
  bool with_values = true;
  // If false, the messages may have empty topics. Only unordered readers make use of it.
  bool with_topics = true;
};

}  // namespace topicdb
