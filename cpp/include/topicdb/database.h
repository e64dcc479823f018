// A database: one directory of messages. The entry point of the C++ API.
#pragma once

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

#include "topicdb/types/copies.h"
#include "topicdb/interrupt.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/maintenance.h"
#include "topicdb/message.h"
#include "topicdb/options.h"
#include "topicdb/types/ranges.h"
#include "topicdb/types/read.h"
#include "topicdb/scan.h"
#include "topicdb/types/stats.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"

namespace topicdb {

class DatabaseImpl;
struct JobInfo;
class StreamWatch;
struct SubscribeFrom;
struct SubscribeWindow;
class Subscription;
struct SubscriptionStats;
class Tail;
struct TailOptions;
class Transaction;
struct TransactionOptions;

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
