// How a slab encodes its messages in RocksDB. A released layout never changes. A better encoding
// becomes a new layout beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include "layout/last_messages.h"
#include "layout/slab_check.h"
#include "layout/slab_salvage.h"
#include "layout/staged_block.h"
#include "structure/structure.h"
#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/ranges.h"
#include "topicdb/types/read.h"

namespace topicdb::rocks {
class LogChain;
}

namespace topicdb {

// Says where a writer noted a topic in the page that it builds. With the mark, the writer need not
// look for the topic again.
struct TopicMark {
  std::uint64_t page = 0;  // a number that is unique in the process
  std::uint32_t topic = 0;
};

// A message whose stream and place are decided.
struct PlacedMessage {
  std::uint32_t stream;
  std::string_view topic;
  std::span<const std::string_view> varying;  // the words at the varying levels of the structure;
                                              // empty if !Layout::needs_words()
  std::int64_t timestamp;
  std::uint64_t serial;  // of the commit
  std::uint32_t index;   // in the batch that is committed
  std::string_view value;
  TopicMark* mark = nullptr;  // the mark of the topic, if the caller keeps one between messages
};

// Hides messages that may still be stored, such as deleted ones. It hides those that match `filter`
// and `range`, and that a commit from `serial_min` to `serial` wrote.
struct RowMask {
  Filter filter;
  TimeRange range;
  std::uint64_t serial;
  std::uint64_t serial_min = 0;

  bool Hides(std::string_view topic, std::int64_t timestamp, std::uint64_t of_serial) const {
    return of_serial <= serial && of_serial >= serial_min && Contains(range, timestamp) &&
           filter.Matches(topic);
  }
};

// The memory that all reads of one call may take together.
inline constexpr std::size_t kReadMemoryBytes = std::size_t{112} << 20;

// Says what to read: streams of one slab, merged in the order of a stream.
struct ReadRequest {
  // The streams to read, sorted. If absent, all streams. The layout skipstream reads exactly one.
  std::optional<std::vector<std::uint32_t>> streams;
  Structure structure;  // of the only stream; used if Layout::reads_one_stream()
  Filter filter;
  TimeRange range;
  Position position;
  std::vector<RowMask> masks = {};
  // The read returns no message of a later commit.
  std::uint64_t serial_max = std::numeric_limits<std::uint64_t>::max();
  // Bounds the decoded messages in memory. A single message that is larger may exceed it.
  std::size_t memory_bytes_max = kReadMemoryBytes;
  // An unordered read returns no message of an earlier commit. A LogReader takes such a bound as an
  // argument instead.
  std::uint64_t serial_min = 0;
  // A message may match one of these instead of `filter`. Only readers in order and LastReaders
  // use them.
  std::vector<Filter> or_filters = {};
};

struct MessageCount {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  // of topics and values
};
using StreamSizes = std::map<std::uint32_t, MessageCount>;  // by stream

// A message that was found by its topic and timestamp.
struct StoredMessage {
  std::uint64_t serial = 0;
  std::string value;
};

struct ReadLimits {
  std::size_t rows_max;  // rows in `out` after the read
  std::size_t bytes_max;
  // Rows that the read examines, whether they match or not. The limit lets a caller be interrupted.
  std::size_t examined_max;
};

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

  // Appends the next messages to `out`, in order. Returns kCorruption if the data cannot be right.
  virtual Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) = 0;
  // Returns the position behind the last message that was appended.
  virtual const Position& position() const = 0;
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
  virtual ReadCounters counters() const = 0;
};

// Limits one read of a log. The read stops when the batch has this much, but appends at least one
// message.
struct LogRoom {
  std::size_t rows_max = std::numeric_limits<std::size_t>::max();
  std::size_t bytes_max = std::numeric_limits<std::size_t>::max();
};

// Makes one pass over the messages of a slab in the order of their commits. The caller owns it, and
// must destroy it before the shard closes. Not thread-safe.
class LogReader {
 public:
  LogReader() = default;
  virtual ~LogReader() = default;
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Returns the place of the next message, or nothing at the end. Returns kCorruption if the data
  // cannot be right, and kInterrupted.
  virtual Result<std::optional<CommitPlace>> Head(const InterruptCheck& interrupted) = 0;
  // Appends messages before `until` to `out`. Unless `indexes` is null, appends their numbers in
  // their commits to it. Read and Skip may stop before `until`: Head tells where.
  // REQUIRES for Read and Skip: Head has just returned a place
  virtual void Read(const CommitPlace& until, const LogRoom& room, Batch* out,
                    std::vector<std::uint32_t>* indexes) = 0;
  // Skips messages before `until`.
  virtual void Skip(const CommitPlace& until) = 0;
};

// The column families of a slab.
struct SlabFamilies {
  rocksdb::ColumnFamilyHandle* main;
  rocksdb::ColumnFamilyHandle* sealed;  // keys that a layout writes in ascending order; null if
                                        // the layout has none
};

// Says where to read: in a database, at a moment, from the column families of a slab.
struct RocksSource {
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;  // null: now
  SlabFamilies families;
  rocks::LogChain* log = nullptr;  // for writers only
};

// What a slab keeps in memory for its layout. The slab owns it. Thread-safe.
struct LayoutState {
  std::atomic<std::uint64_t> next_block{1};
  std::atomic<std::uint64_t> fresh_blocks{0};
  std::atomic<std::uint64_t> fresh_bytes{0};
  // Bytes of the topics and values that sealing has written for the first time, and written again.
  std::atomic<std::uint64_t> sealed_bytes{0};
  std::atomic<std::uint64_t> resealed_bytes{0};
};

// About how much a writer will get.
struct ExpectedWrites {
  std::size_t rows = 0;
  std::size_t bytes = 0;  // of topics and values
};

// Adds messages of one slab to one RocksDB batch. The caller owns it. Not thread-safe.
class SlabWriter {
 public:
  SlabWriter() = default;
  virtual ~SlabWriter() = default;
  SlabWriter(const SlabWriter&) = delete;
  SlabWriter& operator=(const SlabWriter&) = delete;

  // Adds a message and copies what it needs. The caller must add messages in the order of commits.
  virtual rocksdb::Status Add(const PlacedMessage& message) = 0;
  // Adds what is left to the batch.
  virtual rocksdb::Status Finish() = 0;
  // Updates the LayoutState. The caller must call it once the batch is written.
  virtual void Apply() = 0;
};

// Adds removals of stored messages to one RocksDB batch. The caller owns it. Not thread-safe.
class SlabRemover {
 public:
  SlabRemover() = default;
  virtual ~SlabRemover() = default;
  SlabRemover(const SlabRemover&) = delete;
  SlabRemover& operator=(const SlabRemover&) = delete;

  // Removes at most `rows_max` of the messages that the request finds, and adds their number to
  // `removed`. Returns false if some of them remain.
  virtual Result<bool> Remove(const ReadRequest& request, std::size_t rows_max,
                              std::size_t* removed) = 0;
  // Removes the messages of this stream, topic and timestamp, and adds their number to `removed`.
  // Leaves masked messages, and messages of commits after `serial_max`.
  virtual Status RemovePoint(const PlacedMessage& place, const std::vector<RowMask>& masks,
                             std::uint64_t serial_max, std::size_t* removed) = 0;
  // Adds what is left to the batch.
  virtual Status Finish() = 0;
};

// Says how much is sealed at a time.
struct SealLimits {
  // No sealed block exceeds these by more than a 16th, whatever the limits say. A reader would need
  // too much memory for a larger one.
  static constexpr std::size_t kBlockRowsMax = 262'144;
  static constexpr std::size_t kBlockBytesMax = std::size_t{16} << 20;
  static constexpr std::size_t kPageBytesMax = std::size_t{64} << 10;

  // How much may gather in fresh blocks before they are sealed.
  std::size_t fresh_bytes_max;
  std::size_t fresh_blocks_max;
  std::size_t block_bytes_max;  // of topics and values; one message may be larger
  std::size_t page_bytes_max;
};

// Says which part of a slab to seal.
enum class SealScope {
  kDue,     // fresh blocks, if there are as many as the limits say
  kFresh,   // all fresh blocks
  kClosed,  // all fresh blocks, compressed as much as possible: no more messages will come
};

// Makes one step of sealing a slab. The caller owns it, and calls Gather, WriteData, Install and
// Apply in this order. Not thread-safe. At most one step may run at a time for a slab.
class Sealing {
 public:
  Sealing() = default;
  virtual ~Sealing() = default;
  Sealing(const Sealing&) = delete;
  Sealing& operator=(const Sealing&) = delete;

  // Chooses and reads the blocks to seal, or to seal again. Returns false if there are none.
  virtual Result<bool> Gather(SealScope scope) = 0;
  // Writes the greater part of the new blocks to RocksDB, where no reader sees it yet.
  virtual Status WriteData() = 0;
  // Adds to the batch the records that make the new blocks visible, and removals of the blocks that
  // they replace.
  // REQUIRES: `now` has no snapshot; nobody else writes to the slab until the batch is written
  virtual Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) = 0;
  // Updates the LayoutState. The caller must call it once the batch is written.
  virtual void Apply() = 0;
};

// Encodes the messages of slabs, and makes the objects that write, read, seal, check and salvage
// them. Has no state and is thread-safe.
class Layout {
 public:
  Layout() = default;
  virtual ~Layout() = default;
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  // Returns true if a message replaces an earlier one with the same topic and timestamp. Otherwise
  // both are kept.
  virtual bool overwrites() const = 0;
  // Returns true if the layout needs PlacedMessage::varying.
  virtual bool needs_words() const = 0;
  // Returns true if a read takes exactly one stream. Otherwise a read takes any number of streams.
  virtual bool reads_one_stream() const = 0;
  // Returns true if the layout has blocks that are sealed in the background, and takes staged
  // blocks.
  virtual bool seals() const = 0;

  // Fills the state of a slab that is being opened. Unless `read_only`, removes what a crash has
  // left unfinished. Returns kCorruption if the records of the slab are damaged.
  virtual Status Restore(const RocksSource& source, bool read_only, LayoutState* state) const = 0;
  virtual std::unique_ptr<SlabWriter> NewWriter(const SlabFamilies& families, LayoutState* state,
                                                const ExpectedWrites& expected,
                                                rocksdb::WriteBatch* batch) const = 0;
  virtual std::unique_ptr<SlabRemover> NewRemover(const RocksSource& source,
                                                  rocksdb::WriteBatch* batch) const = 0;
  // Adds to the batch the records that make the messages of a staged block visible. The pages of
  // the block are in the family `sealed` already. The caller must count one more fresh block once
  // the batch is written. Returns kCorruption if the staged block is damaged.
  // REQUIRES for InstallStaged, FindStaged and NewSealing: seals()
  virtual Status InstallStaged(const SlabFamilies& families, LayoutState* state,
                               const StagedBlock& block, const StagedPlace& place,
                               rocksdb::WriteBatch* batch) const = 0;
  // Returns what the slab has under a number of staged pages.
  virtual Result<StagedState> FindStaged(const RocksSource& source, std::uint64_t pages) const = 0;
  // Removes the pages of staged blocks that were not installed. Does nothing if !seals().
  virtual Status RemoveUnplaced(const RocksSource& source) const = 0;
  virtual std::unique_ptr<Sealing> NewSealing(const RocksSource& source, LayoutState* state,
                                              const SealLimits& limits) const = 0;
  // Returns the message of this stream, topic and timestamp that is not masked. If the slab keeps
  // several of them, returns the newest. Returns nothing if there is none, and kCorruption if the
  // data cannot be right.
  virtual Result<std::optional<StoredMessage>> Get(const RocksSource& source,
                                                   const PlacedMessage& place,
                                                   const std::vector<RowMask>& masks) const = 0;
  virtual std::unique_ptr<StreamReader> NewReader(const RocksSource& source,
                                                  ReadRequest request) const = 0;
  // Compares the stored records with each other and with the slab's structures, and reports what
  // cannot be right. Returns kInterrupted or kStorage.
  virtual Result<CheckCounts> Check(const RocksSource& source, const SlabCheck& check) const = 0;
  // Returns how much is stored of each of the slab's streams, including deleted messages. May leave
  // out streams that have no messages. Reads few messages or none, and estimates their bytes. The
  // layout skipstream divides `written` among the streams by the bytes that they take in files.
  // Returns kCorruption or kInterrupted.
  virtual Result<StreamSizes> SizesByStream(const RocksSource& source,
                                            const std::vector<std::uint32_t>& streams,
                                            const MessageCount& written,
                                            const InterruptCheck& interrupted) const = 0;
  // Hands out the messages of a damaged slab that can be read, and reports those that cannot.
  // Returns kStorage or kInterrupted.
  virtual Status Salvage(const RocksSource& source, const SlabSalvage& call) const = 0;
  // Returns a reader that offers messages of the request to `found`. It offers at least the newest
  // message of each topic, unless `found` has a newer one of that topic. It ignores the position of
  // the request. `found` must outlive the reader.
  virtual std::unique_ptr<LastReader> NewLastReader(const RocksSource& source, ReadRequest request,
                                                    LastMessages* found) const = 0;
  // Returns true if the layout keeps the order of commits.
  virtual bool has_log() const = 0;
  // Returns a reader of the messages that the request wants, from commit `serial_min` on. Of the
  // request, it uses streams, filter, range, masks, serial_max and memory_bytes_max.
  // REQUIRES: has_log()
  virtual std::unique_ptr<LogReader> NewLogReader(const RocksSource& source,
                                                  const ReadRequest& request,
                                                  std::uint64_t serial_min) const = 0;
};

std::unique_ptr<Layout> MakeLayout(LayoutKind kind, std::uint32_t timestamp_bytes);

}  // namespace topicdb
