// Small immutable values that name something in a database: slabs, streams and iterators.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/times.h"

namespace topicdb {

// Identifies a database. The database makes it of random bytes when it is created, and refuses
// streams and iterators that another database has saved.
using DatabaseId = std::array<std::uint8_t, 16>;

// Names a slab: one generation of one class in one shard. A slab is dropped as a whole.
struct SlabId {
  std::uint32_t shard = 0;
  RetentionClassId retention_class;
  Generation generation;

  auto operator<=>(const SlabId&) const = default;
};

// Describes a slab.
struct SlabInfo {
  SlabId id;
  std::string retention_class;  // its topic filter
  LayoutKind layout = LayoutKind::kSkipstream;
  bool read_only = false;
  WallTime created_at;
  std::optional<WallTime> sealed_at;  // absent: the slab is current
  std::uint64_t messages = 0;  // that were written; one that was overwritten counts each time
  std::uint64_t bytes = 0;     // of the topics and values of these messages
  std::uint64_t streams = 0;
  std::optional<std::int64_t> first_timestamp;  // smallest and largest of all that were written
  std::optional<std::int64_t> last_timestamp;
  // If not 0, the slab keeps this many messages of each topic from earlier generations.
  std::uint32_t keep_last = 0;

  bool operator==(const SlabInfo&) const = default;
};

// Names a stream: the topics of one structure in one slab. A reader in order reads one stream.
struct Stream {
  DatabaseId database{};
  SlabId slab;
  StreamId id;                  // within the slab, never kNoStream
  std::string retention_class;  // its topic filter
  std::string structure;        // such as "metrics/+/cpu/+"

  auto operator<=>(const Stream&) const = default;

  // Returns the stored form, which has a checksum and which later versions can read. docs/format.md
  // draws it.
  std::string Encode() const;
  // Decodes a stored form. Returns kCorruption if the bytes are not one.
  static Result<Stream> Decode(std::string_view bytes);
};

// Says where a reader of a stream continues.
struct Position {
  // DO NOT CHANGE THESE VALUES: they are in saved iterators.
  enum class Kind : std::uint8_t {
    kAtTime = 1,        // before the first message at or after `timestamp`
    kAfterMessage = 2,  // after the message (timestamp, serial, index)
    kAfterKey = 3,      // after the key `words` (streams without time)
  };
  Kind kind = Kind::kAtTime;
  std::int64_t timestamp = 0;
  Serial serial;            // of the commit
  std::uint32_t index = 0;  // of the message in its commit
  std::string words;

  auto operator<=>(const Position&) const = default;
};

// A position in a stream, with the filter and the end of what the caller wants. No method of the
// database changes one: Database::Next returns a new iterator.
struct Iterator {
  DatabaseId database{};
  SlabId slab;
  StreamId stream;
  std::string filter;
  Position position;
  std::optional<std::int64_t> end;  // exclusive

  auto operator<=>(const Iterator&) const = default;

  // Returns the stored form, which has a checksum and which later versions can read. docs/format.md
  // draws it.
  std::string Encode() const;
  // Decodes a stored form. Returns kCorruption if the bytes are not one.
  static Result<Iterator> Decode(std::string_view bytes);
};

}  // namespace topicdb
