#include "topicdb/transaction.h"

#include <algorithm>
#include <string_view>

#include "commit/key_range.h"
#include "store/cursor/scan_impl.h"
#include "store/read/point_lookup.h"
#include "store/transaction/transaction_impl.h"

namespace topicdb {

namespace {

// A transaction is one write in memory before it is one on disk, so its size is limited.
constexpr std::size_t kTransactionBytesMax = std::size_t{1} << 30;

// Returns the messages to commit, and notes in `ops` which of them are serials. The messages refer
// to `own`, which must stay as it is until the commit is over.
std::vector<MessageView> PrepareMessages(const TransactionWrites& own, TransactionOps* ops) {
  std::vector<MessageView> messages;
  for (const TransactionWrites::Write& write : own.writes()) {
    if (write.gone) continue;
    messages.push_back({write.topic, write.timestamp, write.value});
    ops->is_serial.push_back(write.is_serial);
  }
  return messages;
}

// A commit on its way through the queue of its shard, and all that it needs. It counts as an open
// transaction of the shard until it is destroyed, so that the shard remembers what others commit.
struct PendingCommit {
  explicit PendingCommit(std::shared_ptr<Shard> of) : shard(std::move(of)) {}
  ~PendingCommit() { shard->EndTransaction(); }
  PendingCommit(const PendingCommit&) = delete;
  PendingCommit& operator=(const PendingCommit&) = delete;

  // Returns the outcome of the commit, which is over.
  CommitOutcome OutcomeOf(const ShardCommit& commit) const {
    if (!commit.status.ok()) return {commit.status, commit.fault};
    Receipt receipt;
    receipt.count = messages.size();
    receipt.durability = commit.durability;
    if (commit.serial != kNoSerial) receipt.serials.emplace_back(shard->index(), commit.serial);
    return {std::move(receipt), {}};
  }

  const std::shared_ptr<Shard> shard;
  TransactionOps ops;
  TransactionWrites own;
  std::vector<MessageView> messages;  // refer to `own`
  std::function<void(CommitOutcome)> done;
};

}  // namespace

TransactionImpl::TransactionImpl(std::shared_ptr<DatabaseImpl> database,
                                 std::shared_ptr<Shard> shard, const TransactionOptions& options)
    : database_(std::move(database)),
      options_(options),
      shard_(std::move(shard)),
      view_(shard_->BeginTransaction()) {
  ops_.start_serial = view_->serial();
  ops_.begun = std::chrono::steady_clock::now();
  ops_.generation = options.generation;
  database_->Register(this);
}

TransactionImpl::~TransactionImpl() { Rollback(); }

void TransactionImpl::End() {
  if (shard_ == nullptr) return;
  view_.reset();
  shard_->EndTransaction();
  shard_.reset();
}

void TransactionImpl::Release() {
  const MutexLock lock(mutex_);
  End();
}

void TransactionImpl::Rollback() {
  const ReaderLock in_use(database_->lifecycle());
  Release();
  database_->Unregister(this);
}

bool TransactionImpl::open() const {
  const MutexLock lock(mutex_);
  return shard_ != nullptr;
}

CommitFault TransactionImpl::fault() const {
  const MutexLock lock(mutex_);
  return fault_;
}

Status TransactionImpl::CheckOpen() const {
  return shard_ != nullptr
             ? Status::Ok()
             : Closed("this transaction is over: it was committed, rolled back, or has failed");
}

Status TransactionImpl::CheckKey(std::string_view topic, std::int64_t timestamp) const {
  const MessageView message{topic, timestamp, {}};
  TOPICDB_RETURN_IF_ERROR(
      CheckMessage(message, database_->environment().schema.timestamp_bytes, TopicUse::kReserved));
  if (timestamp != kAssignTimestamp) return Status::Ok();
  return InvalidArgument("topic '" + std::string(topic) + "': a timestamp is needed here");
}

Status TransactionImpl::Write(const MessageView& message, bool is_serial, TopicUse use) {
  TOPICDB_ENTER(database_);
  TOPICDB_RETURN_IF_ERROR(
      CheckMessage(message, database_->environment().schema.timestamp_bytes, use));
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckOpen());
  if (IsReservedTopic(message.topic)) TOPICDB_RETURN_IF_ERROR(shard_->EnsureReservedSlab());
  if (own_.bytes() + message.topic.size() + message.value.size() > kTransactionBytesMax) {
    return InvalidArgument("a transaction takes at most 1 GiB of topics and values: split it");
  }
  own_.Add({std::string(message.topic), message.timestamp, std::string(message.value), is_serial});
  return Status::Ok();
}

Status TransactionImpl::Delete(const Filter& filter, const TimeRange& range, TopicUse use) {
  TOPICDB_ENTER(database_);
  TOPICDB_RETURN_IF_ERROR(CheckDelete(filter, range, use));
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckOpen());
  own_.Delete({filter, range});
  return Status::Ok();
}

Result<std::optional<std::string>> TransactionImpl::Get(std::string_view topic,
                                                        std::int64_t timestamp) {
  TOPICDB_ENTER(database_);
  TOPICDB_RETURN_IF_ERROR(CheckKey(topic, timestamp));
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckOpen());
  const TransactionWrites::Write* own = own_.Find(topic, timestamp);
  if (own != nullptr && !own->is_serial) return std::optional(own->value);
  TOPICDB_ASSIGN_OR_RETURN(Filter filter, Filter::Parse(topic));
  AddRead({std::move(filter), Instant(timestamp)});
  if (own_.IsDeleted(topic, timestamp)) return std::optional<std::string>();
  const rocksdb::Snapshot* snapshot = view_->snapshot();
  const PointLookup lookup{view_->slabs(),
                           view_->deletes(),
                           view_->db(),
                           snapshot,
                           database_->environment().rules()->ClassesWith(topic),
                           options_.generation};
  TOPICDB_ASSIGN_OR_RETURN(auto found, lookup.Find(topic, timestamp));
  if (!found.has_value()) return std::optional<std::string>();
  return std::optional(std::move(found->value));
}

// Notes a read once if it comes several times in a row, as in loops.
void TransactionImpl::AddRead(KeyRange keys) {
  if (!ops_.reads.empty() && ops_.reads.back().range == keys.range &&
      ops_.reads.back().filter.text() == keys.filter.text()) {
    return;
  }
  ops_.reads.push_back(std::move(keys));
}

Result<std::unique_ptr<Scan>> TransactionImpl::NewScan(const Filter& filter,
                                                       const TimeRange& range) {
  TOPICDB_ENTER(database_);
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckOpen());
  AddRead({filter, range});
  std::vector<ShardMoment> moments{{shard_, view_}};
  std::vector<StreamTarget> targets = PlanStreams(moments, {filter}, range, std::nullopt);
  std::erase_if(targets, [&](const StreamTarget& target) {
    return options_.generation && target.slab->id().generation != *options_.generation;
  });
  const auto replaces = [view = view_,
                         rules = database_->environment().rules()](std::string_view topic) {
    const RetentionClassId of_topic = rules->ClassOf(topic);
    const auto current = std::find_if(
        view->current().begin(), view->current().end(),
        [&](const SlabView& slab) { return slab.slab->id().retention_class == of_topic; });
    return current != view->current().end() && current->slab->layout().overwrites();
  };
  auto source =
      std::make_unique<OverlaySource>(std::make_unique<MergedSource>(std::move(targets), range),
                                      own_, KeyRange{filter, range}, replaces);
  return std::make_unique<Scan>(
      std::make_shared<ScanImpl>(database_, std::move(moments), std::move(source)));
}

Status TransactionImpl::Require(Requirement requirement) {
  TOPICDB_ENTER(database_);
  TOPICDB_RETURN_IF_ERROR(CheckKey(requirement.topic, requirement.timestamp));
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckOpen());
  ops_.requirements.push_back(std::move(requirement));
  return Status::Ok();
}

Result<Receipt> TransactionImpl::Commit() {
  TOPICDB_ENTER(database_);
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckOpen());
  ops_.deletes = own_.deletes();
  const std::vector<MessageView> messages = PrepareMessages(own_, &ops_);
  ShardCommit commit;
  commit.durability = database_->DurabilityOf(options_.durability);
  commit.bytes = own_.bytes();
  commit.messages = messages;
  commit.transaction = &ops_;
  if (!messages.empty()) commit.status = database_->upkeep().CheckQuota();
  is_committed_ = true;
  if (commit.status.ok()) shard_->Commit(&commit);
  Receipt receipt;
  receipt.count = messages.size();
  receipt.durability = commit.durability;
  if (commit.serial != kNoSerial) receipt.serials.emplace_back(shard_->index(), commit.serial);
  fault_ = std::move(commit.fault);
  End();
  TOPICDB_RETURN_IF_ERROR(commit.status);
  return receipt;
}

Result<bool> TransactionImpl::CommitAsync(
    std::function<void(CommitOutcome)> done, bool urgent,
    std::optional<std::chrono::steady_clock::time_point> room_until) {
  TOPICDB_ENTER(database_);
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckOpen());
  view_.reset();
  // From here on the transaction is over, and `pending` ends it in the shard.
  auto pending = std::make_shared<PendingCommit>(std::move(shard_));
  pending->ops = std::move(ops_);
  pending->own = std::move(own_);
  pending->ops.deletes = pending->own.deletes();
  pending->messages = PrepareMessages(pending->own, &pending->ops);
  pending->done = std::move(done);
  if (!pending->messages.empty()) TOPICDB_RETURN_IF_ERROR(database_->upkeep().CheckQuota());
  auto commit = std::make_unique<ShardCommit>();
  commit->durability = database_->DurabilityOf(options_.durability);
  commit->bytes = pending->own.bytes();
  commit->messages = pending->messages;
  commit->transaction = &pending->ops;
  commit->is_urgent = urgent;
  claim_ = commit->claim = std::make_shared<CommitClaim>();
  ShardCommit* const running = commit.get();
  return pending->shard->CommitAsync(
      std::move(commit), [pending, running] { pending->done(pending->OutcomeOf(*running)); },
      room_until);
}

CommitKnown TransactionImpl::GiveUp() {
  {
    const MutexLock lock(mutex_);
    if (claim_ != nullptr) return claim_->GiveUp();
    if (is_committed_) return CommitKnown::kUnknown;
  }
  Rollback();
  return CommitKnown::kNotStored;
}

Transaction::Transaction(std::shared_ptr<TransactionImpl> impl) : impl_(std::move(impl)) {}

Transaction::~Transaction() {
  // In a forked child the locks may be in any state, and RocksDB must not be touched: leave it.
  if (impl_->Forked()) new std::shared_ptr<TransactionImpl>(std::move(impl_));
}

Status Transaction::Write(const MessageView& message, TopicUse use) {
  return impl_->Write(message, false, use);
}

Status Transaction::WriteSerial(std::string_view topic, std::int64_t timestamp, TopicUse use) {
  return impl_->Write({topic, timestamp, "12345678"}, true, use);
}

Status Transaction::Delete(const Filter& filter, const TimeRange& range, TopicUse use) {
  return impl_->Delete(filter, range, use);
}

Result<std::optional<std::string>> Transaction::Get(std::string_view topic,
                                                    std::int64_t timestamp) {
  return impl_->Get(topic, timestamp);
}

Result<std::unique_ptr<Scan>> Transaction::NewScan(const Filter& filter, const TimeRange& range) {
  return impl_->NewScan(filter, range);
}

Status Transaction::Require(std::string_view topic, std::int64_t timestamp,
                            std::string_view value) {
  return impl_->Require({std::string(topic), timestamp, std::string(value)});
}

Status Transaction::RequirePresent(std::string_view topic, std::int64_t timestamp) {
  return impl_->Require({std::string(topic), timestamp, std::nullopt, /*any_value=*/true});
}

Status Transaction::RequireAbsent(std::string_view topic, std::int64_t timestamp) {
  return impl_->Require({std::string(topic), timestamp, std::nullopt});
}

Result<Receipt> Transaction::Commit() { return impl_->Commit(); }

Result<bool> Transaction::CommitAsync(
    std::function<void(CommitOutcome)> done, bool urgent,
    std::optional<std::chrono::steady_clock::time_point> room_until) {
  return impl_->CommitAsync(std::move(done), urgent, room_until);
}

CommitKnown Transaction::GiveUp() {
  return impl_->Forked() ? CommitKnown::kUnknown : impl_->GiveUp();
}

void Transaction::Rollback() {
  if (!impl_->Forked()) impl_->Rollback();
}

bool Transaction::open() const { return impl_->open(); }

std::uint32_t Transaction::shard() const { return impl_->shard(); }

CommitFault Transaction::fault() const { return impl_->fault(); }

}  // namespace topicdb
