// How a slab encodes its messages in RocksDB. A layout that was released never changes; a better
// one is a new one beside it.
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

// Where a writer noted a topic in the page that it builds, so that it need not look for it again.
struct TopicMark {
  std::uint64_t page = 0;  // unique in the process
  std::uint32_t topic = 0;
};

// A message whose place is decided.
struct PlacedMessage {
  std::uint32_t stream;
  std::string_view topic;
  std::span<const std::string_view> varying;  // words at the varying levels of the structure;
                                              // empty if !Layout::needs_words()
  std::int64_t timestamp;
  std::uint64_t serial;  // of the commit
  std::uint32_t index;   // in the batch that is committed
  std::string_view value;
  TopicMark* mark = nullptr;  // of the topic, if it is kept from message to message
};

// Messages that are not to be seen, though they may be stored: those that match and were written by
// the commit `serial` or an earlier one (deleted since), from `serial_min` on.
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

// What reads of one call may take in memory together.
inline constexpr std::size_t kReadMemoryBytes = std::size_t{112} << 20;

// What to read: streams of one slab, merged in the order of a stream.
struct ReadRequest {
  // Sorted; absent: all. Skipstream reads one.
  std::optional<std::vector<std::uint32_t>> streams;
  Structure structure;  // of the only stream; used if Layout::reads_one_stream()
  Filter filter;
  TimeRange range;
  Position position;
  std::vector<RowMask> masks = {};
  std::uint64_t serial_max = std::numeric_limits<std::uint64_t>::max();  // of what is returned
  // Decoded messages in memory; more is possible while messages are larger than this.
  std::size_t memory_bytes_max = kReadMemoryBytes;
  std::uint64_t serial_min = 0;  // of what an unordered read returns; others take it by itself
  // A message may match one of these instead of `filter`. Of readers in order and of the last ones.
  std::vector<Filter> or_filters = {};
};

struct MessageCount {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  // of topics and values
};
using StreamSizes = std::map<std::uint32_t, MessageCount>;

// A message as it is found by its topic and timestamp.
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

// One pass over a request. Not thread-safe. Must be gone before the shard closes.
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
  virtual ReadCounters counters() const = 0;
};

// One pass over a request for the newest message of each topic. Not thread-safe. Must be gone
// before the shard closes.
class LastReader {
 public:
  LastReader() = default;
  virtual ~LastReader() = default;
  LastReader(const LastReader&) = delete;
  LastReader& operator=(const LastReader&) = delete;

  // Goes on until some `examined_max` rows were looked at, or to the end. kCorruption.
  virtual Result<ReadOutcome> Read(std::size_t examined_max) = 0;
  virtual ReadCounters counters() const = 0;
};

// What one read of a log may append: it stops when the batch has so much. At least one message.
struct LogRoom {
  std::size_t rows_max = std::numeric_limits<std::size_t>::max();
  std::size_t bytes_max = std::numeric_limits<std::size_t>::max();
};

// One pass over the messages of a slab as they were committed. Not thread-safe. Must be gone before
// the shard closes.
class LogReader {
 public:
  LogReader() = default;
  virtual ~LogReader() = default;
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Of the next message; absent at the end. kCorruption, kInterrupted.
  virtual Result<std::optional<CommitPlace>> Head(const InterruptCheck& interrupted) = 0;
  // Both REQUIRE that Head has just given a place, and may not come to the end of what they say.
  // Appends messages before `until`; to `indexes`, unless it is null, their places in their
  // commits.
  virtual void Read(const CommitPlace& until, const LogRoom& room, Batch* out,
                    std::vector<std::uint32_t>* indexes) = 0;
  // Leaves messages before `until` out.
  virtual void Skip(const CommitPlace& until) = 0;
};

// The column families of a slab. The second is for what a layout writes in the order of its keys;
// null if it has none.
struct SlabFamilies {
  rocksdb::ColumnFamilyHandle* main;
  rocksdb::ColumnFamilyHandle* sealed;
};

// Where to read: a database, a moment (null: now), column families.
struct RocksSource {
  rocksdb::DB* db;
  const rocksdb::Snapshot* snapshot;
  SlabFamilies families;
  rocks::LogChain* log = nullptr;  // for those who write
};

// What a slab keeps in memory for its layout. Thread-safe.
struct LayoutState {
  std::atomic<std::uint64_t> next_block{1};
  std::atomic<std::uint64_t> fresh_blocks{0};
  std::atomic<std::uint64_t> fresh_bytes{0};
  // Topics and values that sealing has written, for the first time and again.
  std::atomic<std::uint64_t> sealed_bytes{0};
  std::atomic<std::uint64_t> resealed_bytes{0};
};

// About what a writer will get.
struct ExpectedWrites {
  std::size_t rows = 0;
  std::size_t bytes = 0;  // of topics and values
};

// Adds the messages of one RocksDB batch to it. Not thread-safe.
class SlabWriter {
 public:
  SlabWriter() = default;
  virtual ~SlabWriter() = default;
  SlabWriter(const SlabWriter&) = delete;
  SlabWriter& operator=(const SlabWriter&) = delete;

  // In the order of commits. Copies what it needs.
  virtual rocksdb::Status Add(const PlacedMessage& message) = 0;
  // Adds what is left to the batch.
  virtual rocksdb::Status Finish() = 0;
  // To be called when the batch is written.
  virtual void Apply() = 0;
};

// Adds removals of stored messages to one RocksDB batch. Not thread-safe.
class SlabRemover {
 public:
  SlabRemover() = default;
  virtual ~SlabRemover() = default;
  SlabRemover(const SlabRemover&) = delete;
  SlabRemover& operator=(const SlabRemover&) = delete;

  // Removes what the request finds, at most `rows_max` messages; adds how many to `removed`. False
  // if some remain.
  virtual Result<bool> Remove(const ReadRequest& request, std::size_t rows_max,
                              std::size_t* removed) = 0;
  // Removes what is stored at this place, as far as it was written by commit `serial_max` or an
  // earlier one and is not masked.
  virtual Status RemovePoint(const PlacedMessage& place, const std::vector<RowMask>& masks,
                             std::uint64_t serial_max, std::size_t* removed) = 0;
  // Adds what is left to the batch.
  virtual Status Finish() = 0;
};

// How much is sealed at a time.
struct SealLimits {
  // What no sealed block exceeds, but for a 16th, whatever the limits say: a reader would need too
  // much memory.
  static constexpr std::size_t kBlockRowsMax = 262'144;
  static constexpr std::size_t kBlockBytesMax = std::size_t{16} << 20;
  static constexpr std::size_t kPageBytesMax = std::size_t{64} << 10;

  // Fresh blocks that may gather before they are sealed.
  std::size_t fresh_bytes_max;
  std::size_t fresh_blocks_max;
  std::size_t block_bytes_max;  // of topics and values; one message may be larger
  std::size_t page_bytes_max;
};

// What of a slab is sealed.
enum class SealScope {
  kDue,     // fresh blocks, if there are as many as the limits say
  kFresh,   // all fresh blocks
  kClosed,  // the same, and compressed as much as can be: nothing is added any more
};

// One step of sealing a slab: Gather, WriteData, Install, Apply. Not thread-safe; one at a time for
// a slab.
class Sealing {
 public:
  Sealing() = default;
  virtual ~Sealing() = default;
  Sealing(const Sealing&) = delete;
  Sealing& operator=(const Sealing&) = delete;

  // Chooses and reads what is to be sealed, or sealed again; false if there is nothing.
  virtual Result<bool> Gather(SealScope scope) = 0;
  // Writes the greater part to RocksDB, where nobody sees it yet.
  virtual Status WriteData() = 0;
  // Adds to the batch what makes it seen, and removals of what it replaces. `now`: no snapshot.
  // REQUIRES: nobody else writes to the slab until the batch is written
  virtual Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) = 0;
  // To be called when the batch is written.
  virtual void Apply() = 0;
};

// Stateless; may be used from many threads.
class Layout {
 public:
  Layout() = default;
  virtual ~Layout() = default;
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  // A message replaces an earlier one with the same topic and timestamp; or both are kept.
  virtual bool overwrites() const = 0;
  // PlacedMessage::varying is wanted.
  virtual bool needs_words() const = 0;
  // A read takes one stream; or any number at once.
  virtual bool reads_one_stream() const = 0;
  // Has blocks that are sealed in the background, and takes staged ones.
  virtual bool seals() const = 0;

  // Fills the state of a slab that is opened, and removes what a crash has left unfinished, unless
  // `read_only`. kCorruption.
  virtual Status Restore(const RocksSource& source, bool read_only, LayoutState* state) const = 0;
  virtual std::unique_ptr<SlabWriter> NewWriter(const SlabFamilies& families, LayoutState* state,
                                                const ExpectedWrites& expected,
                                                rocksdb::WriteBatch* batch) const = 0;
  virtual std::unique_ptr<SlabRemover> NewRemover(const RocksSource& source,
                                                  rocksdb::WriteBatch* batch) const = 0;
  // Adds to the batch what makes messages of a staged block seen, whose pages are in the second
  // family. One more block is fresh once the batch is written. kCorruption.
  // REQUIRES: seals(), for what follows, too
  virtual Status InstallStaged(const SlabFamilies& families, LayoutState* state,
                               const StagedBlock& block, const StagedPlace& place,
                               rocksdb::WriteBatch* batch) const = 0;
  // What the slab has under a number of staged pages.
  virtual Result<StagedState> FindStaged(const RocksSource& source, std::uint64_t pages) const = 0;
  // Removes the pages of staged blocks that were not installed.
  virtual Status RemoveUnplaced(const RocksSource& source) const = 0;
  virtual std::unique_ptr<Sealing> NewSealing(const RocksSource& source, LayoutState* state,
                                              const SealLimits& limits) const = 0;
  // The message of this stream, topic and time that is not masked; the newest if several are kept.
  // kCorruption.
  virtual Result<std::optional<StoredMessage>> Get(const RocksSource& source,
                                                   const PlacedMessage& place,
                                                   const std::vector<RowMask>& masks) const = 0;
  virtual std::unique_ptr<StreamReader> NewReader(const RocksSource& source,
                                                  ReadRequest request) const = 0;
  // Compares what is stored with itself and with the slab's structures. kInterrupted, kStorage.
  virtual Result<CheckCounts> Check(const RocksSource& source, const SlabCheck& check) const = 0;
  // What is stored of each of the slab's streams, deleted messages too; those that have nothing may
  // be left out. Reads few of the messages or none: their bytes are estimated, and skipstream's
  // numbers are parts of `written`, by what they take in files. kCorruption, kInterrupted.
  virtual Result<StreamSizes> SizesByStream(const RocksSource& source,
                                            const std::vector<std::uint32_t>& streams,
                                            const MessageCount& written,
                                            const InterruptCheck& interrupted) const = 0;
  // Finds what can be read of what is damaged. What cannot is reported; kStorage, kInterrupted.
  virtual Status Salvage(const RocksSource& source, const SlabSalvage& call) const = 0;
  // Offers `found` messages that the request wants: of each topic at least the newest one, if that
  // is newer than what is found already. The position does not count. `found` must outlive it.
  virtual std::unique_ptr<LastReader> NewLastReader(const RocksSource& source, ReadRequest request,
                                                    LastMessages* found) const = 0;
  // Knows the order of commits.
  virtual bool has_log() const = 0;
  // Of the request: streams, filter, range, masks. From commit `serial_min` on. REQUIRES: has_log()
  virtual std::unique_ptr<LogReader> NewLogReader(const RocksSource& source,
                                                  const ReadRequest& request,
                                                  std::uint64_t serial_min) const = 0;
};

std::unique_ptr<Layout> MakeLayout(LayoutKind kind, std::uint32_t timestamp_bytes);

}  // namespace topicdb
