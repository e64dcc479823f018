// How a slab encodes its messages in RocksDB. A layout that was released never changes; a better
// one is a new one beside it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include "structure/structure.h"
#include "topicdb/database.h"
#include "topicdb/iterator.h"
#include "topicdb/message.h"

namespace topicdb {

// A message whose place is decided.
struct PlacedMessage {
  std::uint32_t stream;
  std::span<const std::string_view> varying;  // words at the varying levels of the structure
  std::int64_t timestamp;
  std::uint64_t serial;  // of the commit
  std::uint32_t index;   // in the batch that is committed
  std::string_view value;
};

// Messages of a stream that are deleted, though they may still be stored: those that match and were
// written by the commit `serial` or an earlier one.
struct RowMask {
  RowFilter filter;
  TimeRange range;
  std::uint64_t serial;
};

// What to read of one stream.
struct ReadRequest {
  std::uint32_t stream;
  Structure structure;
  RowFilter filter;
  TimeRange range;
  Position position;
  std::vector<RowMask> masks = {};
  std::uint64_t serial_max = std::numeric_limits<std::uint64_t>::max();  // of what is returned
};

// A message as it is found by its key.
struct StoredMessage {
  std::uint64_t serial = 0;
  std::string value;
};

struct ReadLimits {
  std::size_t rows_max;  // in `out` after the read
  std::size_t bytes_max;
  std::size_t examined_max;  // rows looked at, matching or not, so that a caller can be interrupted
};

enum class ReadOutcome {
  kMore,       // a limit was reached
  kExhausted,  // everything there is was read
};

// One pass over a stream. Not thread-safe. Must be gone before the shard closes.
class StreamReader {
 public:
  StreamReader() = default;
  virtual ~StreamReader() = default;
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;

  // Appends messages in order. kCorruption for data that cannot be right.
  virtual Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) = 0;
  // Behind the last message that was appended.
  virtual const Position& position() const = 0;
};

// Where to read: a database, a moment (null: now), a column family.
struct RocksSource {
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;
  rocksdb::ColumnFamilyHandle* family;
};

// Stateless; may be used from many threads.
class Layout {
 public:
  Layout() = default;
  virtual ~Layout() = default;
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  // Adds a message, with its index entries, to a commit.
  virtual rocksdb::Status Put(const PlacedMessage& message, rocksdb::ColumnFamilyHandle* family,
                              rocksdb::WriteBatch* batch) const = 0;
  // Removes a message that is stored, with its index entries; only its stream, words and time are
  // looked at.
  virtual rocksdb::Status Delete(const PlacedMessage& message, rocksdb::ColumnFamilyHandle* family,
                                 rocksdb::WriteBatch* batch) const = 0;
  // The message at this place, masks aside; absent if there is none. kCorruption.
  virtual Result<std::optional<StoredMessage>> Get(const RocksSource& source,
                                                   const PlacedMessage& message) const = 0;
  virtual std::unique_ptr<StreamReader> NewReader(const RocksSource& source,
                                                  ReadRequest request) const = 0;
};

std::unique_ptr<Layout> MakeLayout(LayoutKind kind, std::uint32_t timestamp_bytes);

}  // namespace topicdb
