// Makes one pass over what a request wants of a slab.
#pragma once

#include <cstddef>

#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/read.h"

namespace topicdb {

// Limits one call of StreamReader::Read.
struct ReadLimits {
  std::size_t rows_max;   // rows in `out` after the read
  std::size_t bytes_max;  // bytes of `out` after the read
  // Rows that the read examines, whether they match or not. The limit lets a caller be interrupted.
  std::size_t examined_max;
};

// Says why a read has ended.
enum class ReadOutcome {
  kMore,       // the read reached a limit
  kExhausted,  // the read came to the end
};

// Makes one pass over the messages of a request. The caller owns it, and must destroy it before the
// shard closes. Not thread-safe.
class StreamReader {
 public:
  StreamReader() = default;
  virtual ~StreamReader() = default;
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;

  // Appends the next messages to `out`, in the order of the reader. An empty batch takes any
  // message, however large. Returns kCorruption if the data cannot be right.
  virtual Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) = 0;
  // Returns the position behind the last message that was appended.
  virtual const Position& position() const = 0;
  // Returns what the reader has done since it was made.
  virtual ReadCounters counters() const = 0;
};

// Makes one pass over a request and finds the newest message of each topic. The caller owns it, and
// must destroy it before the shard closes. Not thread-safe.
class LastReader {
 public:
  LastReader() = default;
  virtual ~LastReader() = default;
  LastReader(const LastReader&) = delete;
  LastReader& operator=(const LastReader&) = delete;

  // Continues until it has examined about `examined_max` rows, or to the end. Returns kCorruption
  // if the data cannot be right.
  virtual Result<ReadOutcome> Read(std::size_t examined_max) = 0;
  // Returns what the reader has done since it was made.
  virtual ReadCounters counters() const = 0;
};

}  // namespace topicdb
