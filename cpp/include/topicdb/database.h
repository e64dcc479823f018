// A database: one directory of messages. The entry point of the C++ API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/iterator.h"
#include "topicdb/message.h"
#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"

namespace topicdb {

class DatabaseImpl;
struct JobInfo;
class ScanImpl;
class StreamWatch;
struct SubscribeFrom;
struct SubscribeWindow;
class Subscription;
struct SubscriptionStats;
class Tail;
struct TailOptions;
class Transaction;
struct TransactionOptions;

// start <= timestamp < end; an absent bound is none.
struct TimeRange {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> end;

  bool operator==(const TimeRange&) const = default;
};

inline bool Contains(const TimeRange& range, std::int64_t timestamp) {
  return timestamp >= range.start.value_or(0) && (!range.end.has_value() || timestamp < *range.end);
}

// One moment.
inline TimeRange Instant(std::int64_t timestamp) {
  const bool last = timestamp == std::numeric_limits<std::int64_t>::max();
  return {timestamp, last ? std::nullopt : std::optional(timestamp + 1)};
}

// Messages of a filter in a time range.
struct KeyRange {
  Filter filter;
  TimeRange range;
};

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

// Commits of one shard behind `after` up to `until`.
struct CommitRange {
  std::uint64_t after = 0;
  std::optional<std::uint64_t> until;  // absent: the last one there is
  TimeRange times;                     // other messages do not count
  // May end where a block does, behind half of the bytes: who reads from there reads no block in
  // vain.
  bool whole_blocks = false;
};

struct CommitSpan {
  std::uint64_t until = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  // of their topics and values
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

struct SlabUsage {
  SlabInfo slab;
  std::uint64_t disk_bytes = 0;  // of its files, and of what will go there
  // Of these, what was removed and still is in files, about. Maintenance has it go.
  std::uint64_t garbage_bytes = 0;
};

// What the messages of one structure take in a class, over the open shards. Deleted messages count
// until they are gone. Bytes are estimated; with skipstream messages, too.
struct StructureUsage {
  std::string retention_class;
  std::string structure;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;       // of topics and values
  std::uint64_t disk_bytes = 0;  // its part of the files
};

// Why a slab was dropped. kKeepLast: the class has no age and no size, only keep_last.
enum class SlabDropReason : std::uint8_t { kAge = 1, kBytes = 2, kQuota = 3, kKeepLast = 4 };

struct DroppedSlab {
  SlabUsage usage;
  SlabDropReason reason = SlabDropReason::kAge;
};

// What one run of it has done.
struct Maintenance {
  std::uint64_t rotated = 0;  // generations that were started
  std::vector<DroppedSlab> dropped;
  std::uint64_t kept = 0;  // messages of dropped slabs that are in new ones, by keep_last
};

struct TrimCount {
  std::vector<SlabInfo> slabs;  // that went as a whole
  std::uint64_t messages = 0;   // that went one by one
};

// What the background thread has done since the database was opened.
struct MaintenanceStats {
  std::uint64_t runs = 0;
  std::int64_t last_run_us = 0;  // its time
  std::uint64_t rotated = 0;
  std::uint64_t dropped_slabs = 0;
  std::uint64_t dropped_messages = 0;
  std::uint64_t dropped_bytes = 0;  // of files
  std::uint64_t kept_messages = 0;  // of those that were dropped
  std::string error;                // of the last run; empty if it went well
};

// How the files of a database are copied. Table files never change once they are written: where it
// can be, a copy has them under another name, and they take no space of their own.
struct CopyOptions {
  // An earlier copy of the same database: what it has is linked from there, not copied. For copies
  // on another file system.
  std::optional<std::string> base;
  bool copies_all = false;  // every byte: damage to a file would be damage to its other names
};

struct CopyCounts {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of all
  std::uint64_t copied_bytes = 0;
};

struct SnapshotInfo {
  // (shard, its last commit that is in the snapshot), by shard.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> serials;
  CopyCounts counts;
};

struct ShardStats {
  std::uint32_t shard = 0;
  std::uint64_t serial = 0;         // of the last commit
  std::int64_t clock_us = 0;        // last timestamp that was assigned
  std::int64_t clock_ahead_us = 0;  // that is so far ahead of the clock
  std::int64_t clock_held_us = 0;   // the clock is so far ahead of what is believed
  std::uint64_t messages = 0;       // as SlabInfo
  std::uint64_t bytes = 0;          // as SlabInfo
  std::uint64_t streams = 0;
  std::uint64_t slabs = 0;
  std::uint64_t disk_bytes = 0;       // files of live data
  std::uint64_t memory_bytes = 0;     // write buffers and table readers
  std::uint64_t structure_bytes = 0;  // memory of the learned structures
  std::uint64_t fresh_blocks = 0;     // not sealed yet
  std::uint64_t fresh_bytes = 0;      // of topics and values in them
  std::string sealing_error;          // of the last step of sealing; empty if it went well
  bool is_sealing = false;            // there may be more to be sealed, or it is being done
  // Topics and values that sealing has written since the shard was opened: for the first time, and
  // again.
  std::uint64_t sealed_bytes = 0;
  std::uint64_t resealed_bytes = 0;
  ReadCounters reads;  // that were finished since the shard was opened
};

struct Stats {
  std::vector<ShardStats> shards;
  std::uint64_t cache_bytes = 0;  // in use
  MaintenanceStats maintenance;
};

struct Page {
  Iterator iterator;  // where to go on
  std::shared_ptr<const Batch> batch;
  bool end_of_stream = false;  // a read-only generation, read to its end
};

// A running read over many streams; made by Database::NewScan. It sees each shard as it was when
// the scan was made: whole commits only. Thread-safe; keeps no lock between calls. Closing the
// database ends it: Next then returns kClosed.
class Scan {
 public:
  explicit Scan(std::shared_ptr<ScanImpl> impl);
  ~Scan();
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  // The next messages, at least one; nullptr at the end.
  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits,
                                            const InterruptCheck& interrupted = nullptr);
  // Frees what it holds. May be repeated.
  void Close();

 private:
  std::shared_ptr<ScanImpl> impl_;
};

// Version of the RocksDB that is linked, such as "9.10.0".
std::string RocksDbVersion();

// Thread-safe. Every method but path() and schema() returns kClosed after Close and kForked in a
// forked child. Destroying it closes it; in a forked child it is left alone instead.
class Database {
 public:
  // Opens the database in directory `path`; creates it unless options.read_only.
  // kNotFound, kCorruption, kSchema, kLocked, kInvalidArgument, kStorage.
  static Result<std::unique_ptr<Database>> Open(const std::string& path,
                                                const OpenOptions& options);
  // The schema of the database in directory `path`, without opening a shard. kNotFound,
  // kCorruption, kSchema, kInvalidArgument, kStorage.
  static Result<Schema> ReadSchema(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // By so much the last timestamp that was assigned in any shard was ahead of the clock then, since
  // that has stepped back; 0 in a closed database. Takes no time.
  std::int64_t clock_ahead_us() const;
  const std::string& path() const;
  const Schema& schema() const;
  bool closed() const;

  // Stores messages, in each shard all or none, in the order given. Every message is checked before
  // anything is written: kTopic and kInvalidArgument name the row and change nothing. When a shard
  // fails after another succeeded, the message says which ones hold the messages.
  //
  // With an `id` (not empty) each shard remembers the append, until kAppendIdsMax others with ids
  // came after it, together with the messages: the same append again, with the same id, stores
  // nothing where it is stored already, and gets the serials of the first. kInvalidArgument, which
  // names the id, if it was used for other messages.
  Result<Receipt> Append(std::span<const MessageView> messages,
                         std::optional<Durability> durability = std::nullopt,
                         std::string_view id = {});

  // As Append, but returns once the messages are queued; they gather with others (CommitOptions).
  // `done` is called from another thread, or from this one if `messages` is empty, and must not
  // block or throw. What `owner` keeps alive, the messages are part of. An error returned here
  // means that nothing was queued and `done` is not called. Waits while a queue is full.
  Status AppendAsync(std::span<const MessageView> messages, std::shared_ptr<const void> owner,
                     std::optional<Durability> durability,
                     std::function<void(Result<Receipt>)> done, std::string_view id = {});
  // What is known of the append with this id, in the open shards that have it: its serials there,
  // and how many messages all of it has. Absent: nothing. kReadOnly: only who writes knows.
  Result<std::optional<Receipt>> FindAppend(std::string_view id) const;
  // Removes what matches in the open shards, in each of them as one commit; however much it is, in
  // steps of bounded memory that readers do not see. The receipt counts the messages removed.
  // kInvalidArgument for a range that ends before it starts.
  Result<Receipt> Delete(const Filter& filter, const TimeRange& range,
                         std::optional<Durability> durability = std::nullopt);
  // kInvalidArgument for a shard that is not there, kNotFound for such a generation, kReadOnly.
  Result<std::unique_ptr<Transaction>> Begin(const TransactionOptions& options);

  // Streams that may hold messages that match, ordered by slab and structure.
  Result<std::vector<Stream>> Streams(const Filter& filter, const TimeRange& range) const;

  // A position in `stream`. kNotFound if its slab is gone.
  Result<Iterator> NewIterator(const Stream& stream, const Filter& filter,
                               const TimeRange& range) const;
  // Reads on from `iterator`. An empty batch without end_of_stream means "nothing yet".
  Result<Page> Next(const Iterator& iterator, const PageLimits& limits,
                    const InterruptCheck& interrupted = nullptr) const;
  // Messages that match any of the filters, each once.
  Result<std::unique_ptr<Scan>> NewScan(const std::vector<Filter>& filters,
                                        const ScanOptions& options) const;
  Result<std::unique_ptr<Scan>> NewScan(const Filter& filter, const ScanOptions& options) const {
    return NewScan(std::vector<Filter>{filter}, options);
  }
  // Of each topic that matches any of the filters and has messages in the range the newest one:
  // with the greatest timestamp, of equal ones what was committed last. Bytewise by topic. All of
  // them are found, and kept in memory, by the first Next of the scan.
  Result<std::unique_ptr<Scan>> Last(const std::vector<Filter>& filters,
                                     const TimeRange& range) const;
  // Slices that together hold each message once that matches a filter, and few others: large slabs
  // are cut by commits and times, evenly by what is stored.
  Result<std::vector<Slice>> Slices(const std::vector<Filter>& filters,
                                    const SliceOptions& options) const;
  // Reads slices, each message that matches a filter once, in no order. kNotFound names a slab that
  // is gone; kInvalidArgument: this handle does not see all commits yet (Refresh).
  Result<std::unique_ptr<Scan>> NewScan(const std::vector<Filter>& filters,
                                        const std::vector<Slice>& slices) const;
  // How far the commits of a shard go until messages that match a filter are more than the limits;
  // at least one commit with such messages. Deleted ones may count. kInvalidArgument: no commit
  // log.
  Result<CommitSpan> MeasureLog(std::uint32_t shard, const std::vector<Filter>& filters,
                                const CommitRange& range, const PageLimits& limits,
                                const InterruptCheck& interrupted = nullptr) const;
  // What reading these messages takes; reads them.
  Result<Explanation> Explain(const std::vector<Filter>& filters, const TimeRange& range,
                              const InterruptCheck& interrupted = nullptr) const;
  // Of messages that match any of the filters. kInvalidArgument for a layout without a commit log
  // (skipstream), or a shard that is not there.
  Result<std::unique_ptr<Tail>> NewTail(const std::vector<Filter>& filters,
                                        const TailOptions& options) const;

  // Of streams that may hold topics of the filter. existing: also of those that are there.
  Result<std::unique_ptr<StreamWatch>> WatchStreams(const Filter& filter, bool existing) const;

  // Messages that match any of the filters, as they come. kInvalidArgument: as NewTail, or a window
  // of 0.
  Result<std::unique_ptr<Subscription>> Subscribe(const std::vector<Filter>& filters,
                                                  const SubscribeFrom& from,
                                                  const SubscribeWindow& window) const;
  // Of each open shard: the place of the first commit that has a message of these filters with this
  // timestamp or a later one; behind all that there is if there is none, and with kBehindAll.
  static constexpr std::int64_t kBehindAll = std::numeric_limits<std::int64_t>::max();
  Result<std::map<std::uint32_t, CommitPlace>> PlacesAt(const std::vector<Filter>& filters,
                                                        std::int64_t start_us,
                                                        const InterruptCheck& interrupted) const;
  // Messages of a shard that were dropped with their generation by commits behind `counted`, and
  // that a reader which was given everything before a place lacks: so many at most.
  Result<std::uint64_t> CountDropped(std::uint32_t shard, const std::vector<Filter>& filters,
                                     std::int64_t start_us, const CommitPlace& from,
                                     std::uint64_t counted) const;
  Result<SubscriptionStats> GetSubscriptionStats() const;

  // The jobs that were applied, by shard and sequence. Those without a sequence are kept for a
  // week.
  Result<std::vector<JobInfo>> Jobs() const;
  // The classes as they are now.
  Result<std::vector<RetentionClass>> Retention() const;
  // Replaces the classes. Messages stay in the class that they were stored in; if that is not among
  // the new ones, they are kept as long as any class that their topics may belong to now. Durable
  // when it returns. kSchema for classes that no database can have, kReadOnly unless every shard is
  // open for writing here. Returns what the next maintenance rotates and drops by them, as the
  // files are now, but for the quota; `kept` is 0. With `dry_run` nothing else happens.
  Result<Maintenance> SetRetention(const std::vector<RetentionClass>& classes,
                                   bool dry_run = false);
  // Starts a new generation in every open shard, of one class (its filter) or of all. With
  // `resets_clock`, which is for all, timestamps that are assigned go on from what the clock shows,
  // even if later ones were assigned before. kInvalidArgument
  Status Rotate(const std::optional<std::string>& retention_class, bool resets_clock = false);
  Result<std::vector<SlabInfo>> Slabs() const;
  Result<std::vector<SlabUsage>> Usage() const;
  // By class and structure. Reads the directories of blocks and a few of their pages, but no more
  // messages. kCorruption, kInterrupted.
  Result<std::vector<StructureUsage>> UsageByStructure(
      const InterruptCheck& interrupted = nullptr) const;
  // kInvalidArgument for a current generation, kNotFound if there is no such slab.
  Status DropSlab(std::uint32_t shard, const std::string& retention_class,
                  std::uint32_t generation);
  // Drops the slabs that were sealed longer ago than their class keeps messages; which ones.
  // as_if_us: as in Maintain.
  Result<std::vector<SlabInfo>> Expire(std::optional<std::int64_t> as_if_us,
                                       const InterruptCheck& interrupted = {});
  // What the background thread of a handle does from time to time, as if it were `as_if_us`;
  // absent: as it is now, and nothing goes by age while it is too early to tell (LeapClock). It
  // starts new generations where they are due, and drops those whose time is over or that are
  // beyond the bytes of their class or the quota; the oldest first.
  Result<Maintenance> Maintain(std::optional<std::int64_t> as_if_us,
                               const InterruptCheck& interrupted = {});
  // Removes messages of a filter that are older than `before_us`, whole generations at once where
  // that is all they have; without one those of "#". Counts them only if `dry_run`.
  Result<TrimCount> Trim(std::int64_t before_us, const std::optional<Filter>& filter, bool dry_run,
                         const InterruptCheck& interrupted = nullptr);
  Result<Stats> GetStats() const;

  // Makes a copy of the database at `path`, as it is at one moment: what was committed before is in
  // it, what is committed later is not, appends to several shards are there whole. Commits go on
  // but for that moment. kExists if there is anything at `path`; kReadOnly unless every shard is
  // open for writing here; kInterrupted, kStorage: there is nothing at `path` then.
  Result<SnapshotInfo> MakeSnapshot(const std::string& path, const CopyOptions& options,
                                    const InterruptCheck& interrupted = nullptr);
  // The same of the database at `from`, which nobody may have open for writing (kLocked), as it is:
  // also from a snapshot. With `replace`, a database that is at `to` gives way to it when it is
  // whole; kLocked if somebody has that open for writing. kNotFound, kCorruption, kExists.
  static Result<CopyCounts> Restore(const std::string& from, const std::string& to, bool replace,
                                    const CopyOptions& options,
                                    const InterruptCheck& interrupted = nullptr);

  // Read-only handles see what was written since; others are up to date anyway.
  Status Refresh();
  // Seals what is fresh, moves everything to files and fsyncs it.
  Status Flush();
  // Waits for calls in flight, ends scans, flushes, releases the locks. May be repeated.
  Status Close();

 private:
  explicit Database(std::shared_ptr<DatabaseImpl> impl);
  // Messages in other slabs than these.
  Result<std::uint64_t> Count(const KeyRange& keys, const std::vector<SlabInfo>& without,
                              const InterruptCheck& interrupted) const;
  std::shared_ptr<DatabaseImpl> impl_;
};

}  // namespace topicdb
