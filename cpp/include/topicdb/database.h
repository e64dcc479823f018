// A database: one directory of messages. The entry point of the C++ API.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/database/subscriptions.h"
#include "topicdb/database/upkeep.h"
#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/options.h"
#include "topicdb/scan.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"
#include "topicdb/types/copies.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/maintenance.h"
#include "topicdb/types/ranges.h"
#include "topicdb/types/read.h"
#include "topicdb/types/stats.h"
#include "topicdb/types/summary.h"

namespace topicdb {

class DatabaseImpl;
struct JobCommit;
struct JobInfo;
struct JobReceipt;
struct ShardEnvironment;
class ShardSource;
using MakeShardSource =
    std::function<std::unique_ptr<ShardSource>(std::shared_ptr<const ShardEnvironment>)>;
class StreamWatch;
class Tail;
struct TailOptions;
class Transaction;
struct TransactionOptions;
struct Upload;

// Returns the version of the RocksDB that is linked, such as "9.10.0".
std::string RocksDbVersion();

// A handle of an open database, and the entry to everything that is stored in it. The caller of
// Open owns the handle. Thread-safe.
//
// Destroying the handle closes the database. In a forked child, destroying it leaves the database
// alone. Every method that returns a Status or a Result returns kClosed after Close, and kForked in
// a forked child.
class Database {
 public:
  // Opens the database in directory `path`. Creates it if there is none, unless options.read_only.
  // Returns kNotFound, kCorruption, kSchema, kLocked, kInvalidArgument or kStorage.
  //
  // With OnDamage::kSkip, shards that are damaged or gone are missing in this handle. Whatever
  // needs one of them returns kMissingShard and changes nothing, and everything else goes on. What
  // goes by filters needs all shards, because a transaction may have written any topic to any of
  // them. Returns the error of the first shard if all are missing.
  static Result<std::unique_ptr<Database>> Open(const std::string& path,
                                                const OpenOptions& options);
  // Does the same, with shards from what `make` makes instead of the directory's own.
  static Result<std::unique_ptr<Database>> Open(const std::string& path, const OpenOptions& options,
                                                const MakeShardSource& make);
  // Opens an upload for reading, whatever options.read_only says. It is a database at one moment:
  // Refresh changes nothing. Reads the manifest, and small files as a whole; they stay in a
  // temporary directory as long as the database is open. Table files are read in part, when reads
  // need them. Returns kCorruption, which names the object, if one is missing or damaged, the
  // errors of upload.objects, and those of Open. Reads return such errors, too.
  static Result<std::unique_ptr<Database>> OpenUpload(const Upload& upload,
                                                      const OpenOptions& options);
  // Returns the schema of the database in directory `path` without opening a shard. Returns
  // kNotFound, kCorruption, kSchema, kInvalidArgument or kStorage.
  static Result<Schema> ReadSchema(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Returns how far the last assigned timestamp was ahead of a clock that has stepped back. Takes
  // the greatest value of all open shards, and returns 0 if the database is closed. Does not wait.
  std::chrono::microseconds clock_ahead() const;
  const std::string& path() const;
  const Schema& schema() const;
  bool closed() const;
  // Messages that are pushed to subscribers.
  const Subscriptions& subscriptions() const { return subscriptions_; }
  // Retention classes and generations: what is kept, and what it takes.
  Upkeep& upkeep() { return upkeep_; }
  const Upkeep& upkeep() const { return upkeep_; }

  // Returns the missing shards that may have messages of these filters, by number, and why they are
  // missing. Refresh may bring them back to a read-only handle, once they are repaired.
  Result<MissingReasons> MissingShards(const std::vector<Filter>& filters) const;
  // Returns another handle of this open database. Its reads leave out what is in missing shards,
  // where those of this handle return kMissingShard; in all else the two are alike. The caller owns
  // it, and may destroy it before or after this one, which closes nothing. Closing either of the
  // two closes the database for both.
  std::unique_ptr<Database> Partial() const;

  // Stores messages in the order given. Each shard stores all of its messages or none. Checks every
  // message before it writes anything: kTopic and kInvalidArgument name the row, and nothing was
  // changed. When a shard fails after another one succeeded, the error says which shards have
  // stored their messages. Returns kReadOnly if a shard is not open for writing here, kMissingShard
  // if a shard is missing, and kQuota once the quota is reached (OpenOptions::quota_bytes). After
  // any of these three, no shard has stored anything.
  //
  // If `id` is not empty, each shard remembers the append together with its messages, until
  // kAppendIdsMax later appends with ids have followed. Whoever repeats the append with the same id
  // stores nothing where it is stored already, and gets the serials of the first append. Returns
  // kInvalidArgument, which names the id, if the id was used for other messages or keys.
  //
  // `keys` decide the shards of messages if the database shards by key. Returns kSchema if there
  // are keys and it does not.
  Result<Receipt> Append(std::span<const MessageView> messages,
                         std::optional<Durability> durability = std::nullopt,
                         std::string_view id = {}, const MessageKeys& keys = {});

  // Like Append, but returns once the messages are queued. They gather with other commits
  // (CommitOptions). Waits while a queue is full.
  //
  // Calls `done` with the outcome from another thread, or from this one if `messages` is empty.
  // `done` must not block or throw. `owner` must keep the bytes of the messages alive; those of the
  // keys are needed during the call only. If this returns an error, nothing was queued and `done`
  // is not called.
  Status AppendAsync(std::span<const MessageView> messages, std::shared_ptr<const void> owner,
                     std::optional<Durability> durability,
                     std::function<void(Result<Receipt>)> done, std::string_view id = {},
                     const MessageKeys& keys = {});
  // Returns what the open shards know of the append with this id: its serials in them, and the
  // number of messages in the whole append. Absent if no open shard knows it. Returns kReadOnly
  // from a read-only handle, because only a writer knows.
  Result<std::optional<Receipt>> FindAppend(std::string_view id) const;
  // Deletes the messages that match in the open shards, with one commit in each. However many there
  // are, it works in steps of bounded memory, and readers see none of the steps. The receipt counts
  // the messages that were deleted. Returns kInvalidArgument for a range that ends before it
  // starts, and kMissingShard unless all shards are there that may have such messages.
  Result<Receipt> Delete(const Filter& filter, const TimeRange& range,
                         std::optional<Durability> durability = std::nullopt);
  // Begins a transaction. Returns kInvalidArgument if there is no such shard, kNotFound if there is
  // no such generation, and kReadOnly if the shard is not open for writing here.
  Result<std::unique_ptr<Transaction>> Begin(const TransactionOptions& options);

  // Returns the streams that may hold messages that match, ordered by slab and structure. Leaves
  // out those of generations before `generation_min`. Each class counts its own generations.
  Result<std::vector<Stream>> Streams(const Filter& filter, const TimeRange& range,
                                      Generation generation_min = Generation{}) const;

  // Returns an iterator at the start of `range` in `stream`. Returns kNotFound if the slab of the
  // stream is gone.
  Result<Iterator> NewIterator(const Stream& stream, const Filter& filter,
                               const TimeRange& range) const;
  // Reads on from `iterator`. An empty batch without end_of_stream means "nothing yet". Returns
  // kNotFound if the slab of the stream is gone.
  Result<Page> Next(const Iterator& iterator, const PageLimits& limits,
                    const InterruptCheck& interrupted = nullptr) const;
  // Returns an iterator at the start of a scan in steps: of the messages in the range that match
  // any of the filters, as they are at this moment. It gives each of them once, in the order of
  // ScanOrder::kStream, however long the scan takes and whichever process goes on with it. It
  // leaves out later commits, and what was deleted or replaced before it comes there.
  Result<ScanIterator> NewScanIterator(const std::vector<Filter>& filters,
                                       const TimeRange& range) const;
  // Reads on from `iterator`: messages of one shard, at least one unless it comes to the end or to
  // a loss. Returns kNotFound if a shard is not open here, or if the generation that it was reading
  // was merged with others (keep_last). Returns kInvalidArgument if this handle does not see all
  // commits of the scan yet (Refresh).
  Result<ScanPage> Next(const ScanIterator& iterator, const PageLimits& limits,
                        const InterruptCheck& interrupted = nullptr) const;
  // Reads the messages that match any of the filters, each once.
  Result<std::unique_ptr<Scan>> NewScan(const std::vector<Filter>& filters,
                                        const ScanOptions& options) const;
  Result<std::unique_ptr<Scan>> NewScan(const Filter& filter, const ScanOptions& options) const {
    return NewScan(std::vector<Filter>{filter}, options);
  }
  // Reads the newest message of each topic that matches any of the filters and has messages in the
  // range. The newest is the one with the greatest timestamp, and of equal ones the one committed
  // last. The scan gives them in bytewise order of topics. Its first Next finds all of them and
  // keeps them in memory.
  Result<std::unique_ptr<Scan>> Last(const std::vector<Filter>& filters,
                                     const TimeRange& range) const;
  // Returns slices that together hold each message that matches a filter once, and few others. Cuts
  // large slabs by commits and times, evenly by what is stored.
  Result<std::vector<Slice>> Slices(const std::vector<Filter>& filters,
                                    const SliceOptions& options) const;
  // Reads slices: each message that matches a filter once, in no order. `with_values` is as in
  // ScanOptions. Unless `with_topics`, the messages may have empty topics. Returns kNotFound, which
  // names the slab, if a slab is gone. Returns kInvalidArgument if this handle does not see all
  // commits of the slices yet (Refresh).
  Result<std::unique_ptr<Scan>> NewScan(const std::vector<Filter>& filters,
                                        const std::vector<Slice>& slices, bool with_values = true,
                                        bool with_topics = true) const;
  // Returns the span of commits of a shard whose messages that match a filter stay within the
  // limits. The span has at least one commit with such messages, if there is one. Deleted messages
  // may count. Generations without a commit log count for nothing.
  Result<CommitSpan> MeasureLog(std::uint32_t shard, const std::vector<Filter>& filters,
                                const CommitRange& range, const PageLimits& limits,
                                const InterruptCheck& interrupted = nullptr) const;
  // Counts the messages in the range that match any of the filters, in groups, and returns the
  // groups sorted by topic and time. Reads what blocks say about themselves, and no other messages
  // than it must. Returns kInvalidArgument if there are more groups than the options allow.
  Result<std::vector<MessageGroup>> Summarize(const std::vector<Filter>& filters,
                                              const TimeRange& range, const SummaryOptions& options,
                                              const InterruptCheck& interrupted = nullptr) const;
  // Does the same for the messages of slices. Slices that have messages in common count these more
  // than once. Also returns the errors of NewScan for slices.
  Result<std::vector<MessageGroup>> Summarize(const std::vector<Filter>& filters,
                                              const std::vector<Slice>& slices,
                                              const SummaryOptions& options,
                                              const InterruptCheck& interrupted = nullptr) const;
  // Reads the messages in the range that match any of the filters, and returns what the read took
  // instead of the messages.
  Result<Explanation> Explain(const std::vector<Filter>& filters, const TimeRange& range,
                              const InterruptCheck& interrupted = nullptr) const;
  // Returns a tail of the messages that match any of the filters. Returns kInvalidArgument if an
  // option names a shard that does not exist, or if this handle does not see yet what an iterator
  // has seen (Refresh). Returns kNotFound if a generation in which an iterator stands was merged,
  // or dropped with messages that the iterator had still to give. Returns kSchema, which names a
  // generation without a commit log (layout skipstream), if the tail would begin in one that may
  // have wanted messages, or that takes messages now which may be wanted, or if an iterator stands
  // in one and has messages to give. Tail::Next returns kSchema when it comes to such a generation
  // later.
  Result<std::unique_ptr<Tail>> NewTail(const std::vector<Filter>& filters,
                                        const TailOptions& options) const;

  // Returns a watch for new streams that may hold topics of the filter. With `existing`, it also
  // gives the streams that are there already.
  Result<std::unique_ptr<StreamWatch>> WatchStreams(const Filter& filter, bool existing) const;

  // Returns the jobs that were applied, by shard and sequence. Jobs without a sequence are kept for
  // a week.
  Result<std::vector<JobInfo>> Jobs() const;
  // Returns whether the shards are replicas.
  bool is_replicated() const;
  // These three are for jobs (job.h) of a database that this process has open. Those of a local
  // database are committed as by the functions of job.h. If the shards are replicas, there is no
  // other way.
  //
  // Brings what a StagedWriter has finished in the directory of the database to the replicas, and
  // removes the files. Then the job can be committed at any site. `file` is StagedTask::file. May
  // be repeated. Returns kNotFound if there is no such file, kCorruption if it is damaged or
  // belongs to another database, and kNotLeader or kUnknownOutcome if no majority of the replicas
  // is up: call it again. Does nothing in a local database.
  Status ShareStaged(const std::string& job, const std::string& file);
  // Does what CommitJob of job.h does. If the shards are replicas, also returns kNotLeader if no
  // majority is up and the job is not committed, and kUnknownOutcome if it may be: commit it again.
  // `pending` are then the shards that no replica has led in time.
  Result<JobReceipt> CommitJob(const JobCommit& commit);
  // Does what AbortJob of job.h does, and returns what CommitJob does if no majority is up.
  Status AbortJob(const std::string& job,
                  std::chrono::microseconds timeout = std::chrono::minutes(1));
  // Removes the messages of a filter whose timestamps are less than `before`. Without a filter,
  // first drops the read-only generations that have only such messages, and then removes such
  // messages of "#". With `dry_run`, changes nothing and returns what it would remove.
  Result<TrimCount> Trim(std::int64_t before, const std::optional<Filter>& filter, bool dry_run,
                         const InterruptCheck& interrupted = nullptr);
  // Returns the statistics of the open shards and of what runs in the background.
  Result<Stats> GetStats() const;

  // Copies the database to `path` as it is at one moment. The copy has everything that was
  // committed before that moment and nothing that was committed later. It has every append to
  // several shards as a whole. Commits pause only for that moment.
  //
  // Returns kExists if there is anything at `path`, and kReadOnly unless every shard is open for
  // writing in this handle. After kInterrupted or kStorage there is nothing at `path`.
  Result<SnapshotInfo> MakeSnapshot(const std::string& path, const CopyOptions& options,
                                    const InterruptCheck& interrupted = nullptr);
  // Copies the database at `from`, which may be a snapshot, to `to`. With `replace`, the copy takes
  // the place of a database at `to` once the copy is whole. Returns kLocked if anybody has the
  // database at `from`, or one that would be replaced, open for writing. Also returns kNotFound,
  // kCorruption and kExists.
  static Result<CopyCounts> Restore(const std::string& from, const std::string& to, bool replace,
                                    const CopyOptions& options,
                                    const InterruptCheck& interrupted = nullptr);

  // Waits until reads see these commits, by shard: such as those of a receipt, which another
  // replica of the database has returned. Refreshes a read-only handle meanwhile. Returns kStale,
  // which names a shard, if that takes longer than `timeout`; without one it waits for ever. Also
  // returns kInvalidArgument if there is no such shard, and kInterrupted.
  Status AwaitCommits(const std::map<std::uint32_t, Serial>& serials,
                      std::optional<std::chrono::microseconds> timeout,
                      const InterruptCheck& interrupted = nullptr) const;
  // Waits until reads see everything that was acknowledged before this call, whichever replica of
  // the database has acknowledged it. Returns kNotLeader if no majority of the replicas of a shard
  // answers within `timeout`, and kStale, which names the shard, if one does and this replica is
  // too far behind. A read-only handle refreshes. If its files are those of a replica, that returns
  // kStale, since the newest commits are not in files there.
  Status AwaitAcknowledged(std::chrono::microseconds timeout) const;
  // Lets a read-only handle see what was written since. Other handles are always up to date.
  Status Refresh();
  // Seals all fresh blocks, moves everything to files and fsyncs them. Of a database with replicas,
  // those that lead seal, if they can be reached, and the files are those of this one.
  Status Flush();
  // Waits for calls in flight, ends scans, flushes and releases the locks. May be repeated.
  Status Close();

 private:
  // What the reads of a handle do about missing shards.
  enum class Missing { kRefused, kLeftOut };
  Database(std::shared_ptr<DatabaseImpl> impl, Missing missing);
  // Returns what a read for these filters leaves out, or kMissingShard if it needs a missing shard
  // and this handle leaves none out. REQUIRES: the caller holds the lifecycle() of impl_
  Result<MissingReasons> LeftOut(const std::vector<Filter>& filters) const;

  std::shared_ptr<DatabaseImpl> impl_;
  const Missing missing_;
  Subscriptions subscriptions_;
  Upkeep upkeep_;
};

}  // namespace topicdb
