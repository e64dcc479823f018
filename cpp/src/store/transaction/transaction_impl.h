// A running transaction; see Transaction in topicdb/transaction.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "store/database/database_impl.h"
#include "store/shard/commit/shard_commit.h"
#include "store/transaction/transaction_writes.h"
#include "topicdb/transaction.h"

namespace topicdb {

// The state of a Transaction, which owns it. It registers with its database, so that Close of the
// database can end it. Thread-safe. Lock order: the database's lifecycle(), then mutex_.
class TransactionImpl : public ViewHolder {
 public:
  TransactionImpl(std::shared_ptr<DatabaseImpl> database, std::shared_ptr<Shard> shard,
                  const TransactionOptions& options);
  ~TransactionImpl() override;

  Status Write(const MessageView& message, bool is_serial, TopicUse use) TOPICDB_EXCLUDES(mutex_);
  Status Delete(const Filter& filter, const TimeRange& range, TopicUse use)
      TOPICDB_EXCLUDES(mutex_);
  Result<std::optional<std::string>> Get(std::string_view topic, std::int64_t timestamp)
      TOPICDB_EXCLUDES(mutex_);
  Result<std::unique_ptr<Scan>> NewScan(const Filter& filter, const TimeRange& range)
      TOPICDB_EXCLUDES(mutex_);
  Status Require(Requirement requirement) TOPICDB_EXCLUDES(mutex_);
  Result<Receipt> Commit() TOPICDB_EXCLUDES(mutex_);
  Result<bool> CommitAsync(std::function<void(CommitOutcome)> done, bool urgent,
                           std::optional<std::chrono::steady_clock::time_point> room_until)
      TOPICDB_EXCLUDES(mutex_);
  CommitKnown GiveUp() TOPICDB_EXCLUDES(mutex_);
  void Rollback() TOPICDB_EXCLUDES(mutex_);
  bool open() const TOPICDB_EXCLUDES(mutex_);
  std::uint32_t shard() const { return options_.shard; }
  CommitFault fault() const TOPICDB_EXCLUDES(mutex_);

  // Returns whether this is a forked child, in which nothing here may be touched.
  bool Forked() const { return database_->fork_guard().Forked(); }
  // Ends the transaction. REQUIRES (Release): the caller holds the database's lifecycle(), shared
  // or alone
  void Release() override TOPICDB_EXCLUDES(mutex_);

 private:
  // Notes that the transaction has read these keys, for the check of conflicts.
  void AddRead(KeyRange keys) TOPICDB_REQUIRES(mutex_);
  // Returns kClosed if the transaction is over.
  Status CheckOpen() const TOPICDB_REQUIRES(mutex_);
  // Returns kTopic or kInvalidArgument if no message can have this topic and timestamp.
  Status CheckKey(std::string_view topic, std::int64_t timestamp) const;
  // Releases the view and the shard. Does nothing if the transaction is over.
  void End() TOPICDB_REQUIRES(mutex_);

  const std::shared_ptr<DatabaseImpl> database_;
  const TransactionOptions options_;
  mutable Mutex mutex_;
  // Null once the transaction is over. The view must be destroyed before the shard.
  std::shared_ptr<Shard> shard_ TOPICDB_GUARDED_BY(mutex_);
  std::shared_ptr<const ShardView> view_ TOPICDB_GUARDED_BY(mutex_);
  TransactionOps ops_ TOPICDB_GUARDED_BY(mutex_);
  TransactionWrites own_ TOPICDB_GUARDED_BY(mutex_);
  CommitFault fault_ TOPICDB_GUARDED_BY(mutex_);
  bool is_committed_ TOPICDB_GUARDED_BY(mutex_) = false;           // by Commit
  std::shared_ptr<CommitClaim> claim_ TOPICDB_GUARDED_BY(mutex_);  // null before CommitAsync
};

}  // namespace topicdb
