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

  // Returns the stored form, which has a checksum and which later versions can read.
  // docs/internals/format.md draws it.
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

  // What the last read has seen, for readers of the commit log that leave out what the iterator has
  // given: the commits up to `seen` without those in `hidden`. kNoSerial: an earlier version has
  // stored the iterator, and the members from here on are not known.
  Serial seen = kNoSerial;
  std::vector<SerialRange> hidden = {};  // by their first commits
  bool exhausted = false;      // nothing that it has seen and wants is behind the position
  std::string structure = {};  // of the stream

  auto operator<=>(const Iterator&) const = default;

  // Returns the stored form, which has a checksum and which later versions can read.
  // docs/internals/format.md draws it.
  std::string Encode() const;
  // Decodes a stored form. Returns kCorruption if the bytes are not one.
  static Result<Iterator> Decode(std::string_view bytes);
};

// What a scan in steps has read of one class in one shard.
struct ScanProgress {
  RetentionClassId retention_class;
  Generation next;  // the generation that it reads or comes to; what is before was read
  Generation last;  // the current one when the scan began
  Serial read;      // the generations before `next` have messages of commits up to this one
  auto operator<=>(const ScanProgress&) const = default;
};

// A shard as a scan in steps reads it.
struct ScanShard {
  std::uint32_t shard = 0;
  Serial until;  // messages of later commits are not part of the scan
  // By class, those that had messages when the scan began. Empty once the shard was read.
  std::vector<ScanProgress> classes;
  auto operator<=>(const ScanShard&) const = default;
};

// Where a scan in steps is within a slab.
struct ScanPlace {
  std::uint32_t in_class = 0;   // index of the slab's class in ScanShard::classes
  StreamId stream = kNoStream;  // kNoStream: the slab is read as one stream
  Position position;
  auto operator<=>(const ScanPlace&) const = default;
};

// Where a scan in steps continues: all streams of some filters as they were at one moment, in the
// order of ScanOrder::kStream. No method of the database changes one: Database::Next returns a new
// one.
struct ScanIterator {
  DatabaseId database{};
  std::vector<std::string> filters;  // a message must match any of them; empty: every message
  std::int64_t start = 0;
  std::optional<std::int64_t> end;  // exclusive
  std::vector<ScanShard> shards;    // by number; at least one
  std::uint32_t in_shard = 0;       // index of the shard that is read; shards.size(): the end
  Serial counted;                   // drops in this shard up to this commit were told, or are none
  std::optional<ScanPlace> place;   // absent: before the next slab of the shard

  auto operator<=>(const ScanIterator&) const = default;

  bool at_end() const { return in_shard == shards.size(); }
  // Returns the stored form, which has a checksum and which later versions can read.
  // docs/internals/format.md draws it.
  std::string Encode() const;
  // Decodes a stored form. Returns kCorruption if the bytes are not one.
  static Result<ScanIterator> Decode(std::string_view bytes);
};

}  // namespace topicdb
