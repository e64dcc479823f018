// A transaction on one shard: optimistic, serializable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/types/ranges.h"
#include "topicdb/scan.h"
#include "topicdb/status.h"

namespace topicdb {

// What another commit changed that the transaction has read, deletes or requires.
struct ConflictItem {
  std::string filter;  // or topic
  TimeRange range;
  std::uint64_t serial = 0;  // of the commit that changed it; 0: too long ago to know
};

// A requirement that is not fulfilled.
struct PreconditionItem {
  std::string topic;
  std::int64_t timestamp = 0;
  std::optional<std::string> expected;  // absent: no message
  std::optional<std::string> found;
};

// Why a commit failed with kConflict or kPrecondition.
struct CommitFault {
  std::vector<ConflictItem> conflicts;
  std::vector<PreconditionItem> preconditions;
};

struct TransactionOptions {
  std::uint32_t shard = 0;
  // Reads, deletes and writes only there; absent: reads and deletes in all, writes to the current.
  std::optional<std::uint32_t> generation;
  std::optional<Durability> durability;
};

// Topics under kReservedPrefix are for what is built on transactions, not for users.
enum class TopicUse : std::uint8_t { kPublic, kReserved };

class TransactionImpl;

// Reads see the shard as it was when the transaction began, and above that its own writes and
// deletes; a delete takes its own earlier writes too. What is assigned at commit (a timestamp, the
// serial as a value) is not seen before. Nothing is stored until Commit, which applies all of it
// or, if anything that was read, deleted or required has changed meanwhile, nothing.
//
// Thread-safe; must not outlive use of the database: closing the database ends it (kClosed).
class Transaction {
 public:
  explicit Transaction(std::shared_ptr<TransactionImpl> impl);
  ~Transaction();  // rolls back unless committed
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // kTopic, kInvalidArgument. The message goes to this shard, whatever its topic's hash says.
  Status Write(const MessageView& message, TopicUse use = TopicUse::kPublic);
  // The value will be the serial of the commit, 8 bytes, big-endian.
  Status WriteSerial(std::string_view topic, std::int64_t timestamp,
                     TopicUse use = TopicUse::kPublic);
  Status Delete(const Filter& filter, const TimeRange& range, TopicUse use = TopicUse::kPublic);
  // The value of a message; of the newest generation if several have it.
  Result<std::optional<std::string>> Get(std::string_view topic, std::int64_t timestamp);
  // By timestamp. Writes and deletes that follow are not seen by it.
  Result<std::unique_ptr<Scan>> NewScan(const Filter& filter, const TimeRange& range);
  // Checked at commit, against what is stored before it: the payload, if that is an envelope.
  Status Require(std::string_view topic, std::int64_t timestamp, std::string_view value);
  Status RequireAbsent(std::string_view topic, std::int64_t timestamp);

  // kConflict and kPrecondition: nothing was applied, fault() says why. kStorage: the message says
  // whether it may have been applied. The transaction is over in any case.
  Result<Receipt> Commit();
  void Rollback();
  bool open() const;
  std::uint32_t shard() const;
  CommitFault fault() const;

 private:
  std::shared_ptr<TransactionImpl> impl_;
};

}  // namespace topicdb
