// A transaction on one shard: optimistic and serializable.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/scan.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// Something that the transaction has read, deletes or requires, and that another commit has
// changed.
struct ConflictItem {
  std::string filter;  // a topic filter, or a topic
  TimeRange range;
  // Of the commit that changed it. kNoSerial: the shard does not remember that any more, for
  // example because the transaction was open for too long, too much was changed, or a generation
  // was dropped.
  Serial serial;
};

// A requirement that is not met.
struct PreconditionItem {
  std::string topic;
  std::int64_t timestamp = 0;
  std::optional<std::string> expected;  // absent: no message, or any message
  std::optional<std::string> found;
  bool expects_any = false;  // there should be a message, whatever its value
};

// Why a commit failed with kConflict or kPrecondition.
struct CommitFault {
  std::vector<ConflictItem> conflicts;
  std::vector<PreconditionItem> preconditions;
};

// How a commit has ended: its receipt, or an error and what is known about it.
struct CommitOutcome {
  Result<Receipt> receipt;
  CommitFault fault;
};

// What is known of a commit for whose end nobody has waited.
enum class CommitKnown : std::uint8_t {
  kNotStored,  // it was withdrawn before it was applied: it is never applied
  kUnknown,    // it is being applied at this moment, or is refused
  kStored,     // it is applied, and readers see it, but it may not be as durable yet as it asks
};

// Which part of the database a transaction reads and changes, and how durable it is.
struct TransactionOptions {
  std::uint32_t shard = 0;
  // Reads, deletes and writes only in this generation. Absent: reads and deletes in all
  // generations, and writes to the current one.
  std::optional<Generation> generation;
  std::optional<Durability> durability;
};

// Topics under kReservedPrefix are for what is built on transactions, not for users.
enum class TopicUse : std::uint8_t { kPublic, kReserved };

class TransactionImpl;

// Reads and changes one shard. Reads see the shard as it was when the transaction began, with the
// transaction's own writes and deletes on top. A delete also deletes the transaction's own earlier
// writes. Values that are assigned at commit, a timestamp or a serial, cannot be read before.
//
// Nothing is stored until Commit. Commit applies everything, or nothing if anything that the
// transaction has read, deleted or required has changed meanwhile.
//
// Database::Begin makes it, and the caller owns it. Thread-safe. It must not be used after the
// database: closing the database ends it (kClosed).
class Transaction {
 public:
  explicit Transaction(std::shared_ptr<TransactionImpl> impl);
  ~Transaction();  // rolls back unless committed
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Writes a message to this shard, whatever shard its topic belongs to by its hash. Returns kTopic
  // or kInvalidArgument.
  Status Write(const MessageView& message, TopicUse use = TopicUse::kPublic);
  // Writes a message whose value will be the serial of the commit, 8 bytes, big-endian.
  Status WriteSerial(std::string_view topic, std::int64_t timestamp,
                     TopicUse use = TopicUse::kPublic);
  // Deletes the messages that match. Returns kInvalidArgument for a range that ends before it
  // starts.
  Status Delete(const Filter& filter, const TimeRange& range, TopicUse use = TopicUse::kPublic);
  // Returns the value of a message; absent if there is none. If several generations have the
  // message, returns the value of the newest.
  Result<std::optional<std::string>> Get(std::string_view topic, std::int64_t timestamp);
  // Reads messages in order of timestamps. The scan does not see later writes and deletes.
  Result<std::unique_ptr<Scan>> NewScan(const Filter& filter, const TimeRange& range);
  // Require that a message has this value, that there is a message with any value, or that there is
  // none. Commit checks this against what is stored before it. The value of an envelope is its
  // payload.
  Status Require(std::string_view topic, std::int64_t timestamp, std::string_view value);
  Status RequirePresent(std::string_view topic, std::int64_t timestamp);
  Status RequireAbsent(std::string_view topic, std::int64_t timestamp);

  // Applies the transaction, which is over in any case. After kConflict or kPrecondition nothing
  // was applied, and fault() says why. After kStorage, the message says whether the transaction may
  // have been applied.
  Result<Receipt> Commit();

  // Begins to commit, and returns true; the transaction is over in any case. Calls `done` with the
  // outcome that Commit would have had, from another thread. `done` must not block or throw.
  //
  // The commit gathers with others (CommitOptions), or with `urgent` is applied as soon as it can
  // be. Waits while the queue of the shard is full. If it still is at the deadline `room_until`,
  // returns false: nothing was applied. Then, and if this returns an error, nobody calls `done`.
  // Commits of one shard are applied in the order of these calls. Large deletes are visible at
  // once, and are carried out in the background.
  Result<bool> CommitAsync(
      std::function<void(CommitOutcome)> done, bool urgent = false,
      std::optional<std::chrono::steady_clock::time_point> room_until = std::nullopt);
  // Withdraws what CommitAsync has begun, if that is not being applied yet, and returns what is
  // known of it. `done` is called in any case, with kClosed if it was withdrawn. Ends a transaction
  // that is still open. Returns kUnknown after Commit, whose result says more.
  CommitKnown GiveUp();
  // Ends the transaction, and applies nothing of it. Does nothing if it is over.
  void Rollback();
  // Returns whether the transaction can still be used: neither it nor its database has ended.
  bool open() const;
  std::uint32_t shard() const;
  // Returns why Commit failed; empty after any other outcome.
  CommitFault fault() const;

 private:
  std::shared_ptr<TransactionImpl> impl_;
};

}  // namespace topicdb
