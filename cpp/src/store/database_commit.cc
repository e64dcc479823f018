// Changes a database: appends, deletes, transactions.

#include <atomic>
#include <future>
#include <utility>

#include "commit/shard_choice.h"
#include "store/database/database_impl.h"
#include "store/transaction/transaction_impl.h"
#include "topicdb/database.h"

namespace topicdb {

namespace {

// An append is one write in memory before it is one on disk, so its size is limited.
constexpr std::size_t kAppendBytesMax = std::size_t{1} << 30;

// Checks all messages and their keys; the error names the row.
Status CheckMessages(std::span<const MessageView> messages, const MessageKeys& keys,
                     const ShardEnvironment& environment) {
  const Schema& schema = environment.schema;
  TOPICDB_RETURN_IF_ERROR(CheckKeys(keys, messages.size(), schema, environment.database_path));
  std::size_t bytes = 0;
  for (std::size_t row = 0; row < messages.size(); ++row) {
    Status status = CheckMessage(messages[row], schema.timestamp_bytes, TopicUse::kPublic);
    if (status.ok() && keys.each.has_value()) status = CheckKey(keys.Of(row));
    TOPICDB_RETURN_IF_ERROR(status.WithContext("row " + std::to_string(row)));
    bytes += messages[row].topic.size() + messages[row].value.size();
  }
  if (bytes <= kAppendBytesMax) return Status::Ok();
  return InvalidArgument("one append takes at most 1 GiB of topics and values, this has " +
                         std::to_string(bytes) + " bytes: split it");
}

// The messages of one shard.
struct Part {
  std::shared_ptr<Shard> shard;
  std::span<const MessageView> messages;  // those of the caller, or `chosen`
  std::vector<MessageView> chosen;
  std::size_t first_row = 0;  // the number of its first message in the append
  std::size_t bytes = 0;
};

// Divides messages by shard. Returns kReadOnly or kMissingShard, which name a message, if its shard
// is not open here.
// REQUIRES: CheckMessages has returned OK
Result<std::vector<Part>> SplitByShard(const DatabaseImpl& impl,
                                       std::span<const MessageView> messages,
                                       const MessageKeys& keys) {
  const std::uint32_t shards = impl.environment().schema.shards;
  const ShardChoice choice(impl.environment().schema, keys);
  std::vector<Part> by_shard(shards);
  for (std::size_t row = 0; row < messages.size(); ++row) {
    const MessageView& message = messages[row];
    Part& part = by_shard[shards == 1 ? 0 : choice.ShardOf(row, message.topic)];
    if (part.bytes == 0) part.first_row = row;
    if (shards > 1) part.chosen.push_back(message);
    part.bytes += sizeof(MessageView) + message.topic.size() + message.value.size();
  }
  std::vector<Part> parts;
  for (std::uint32_t index = 0; index < shards; ++index) {
    Part& part = by_shard[index];
    part.messages = shards == 1 ? messages : std::span<const MessageView>(part.chosen);
    if (part.messages.empty()) continue;
    Result<std::shared_ptr<Shard>> shard = impl.shards().Find(index);
    if (!shard.ok()) {
      const std::string_view topic = part.messages.front().topic;
      return Status(shard.status().code(), choice.Describe(part.first_row, topic) + ": " +
                                               shard.status().message() + "; nothing was stored");
    }
    part.shard = std::move(*shard);
    parts.push_back(std::move(part));
  }
  return parts;
}

// Checks the id of an append before anything is written. Asks all shards that are written here,
// since those that have no messages of this append may know the id, too.
Status CheckId(const DatabaseImpl& impl, const AppendId& append) {
  TOPICDB_RETURN_IF_ERROR(CheckAppendId(append.id));
  for (const auto& shard : impl.shards().Writable()) {
    const std::optional<KnownAppend> known = shard->FindAppendHere(append.id);
    if (known.has_value()) TOPICDB_RETURN_IF_ERROR(CheckSameAppend(append, *known));
  }
  return Status::Ok();
}

// Returns nothing if there is no id.
std::optional<AppendId> MakeAppendId(std::string_view id, std::span<const MessageView> messages,
                                     const MessageKeys& keys) {
  if (id.empty()) return std::nullopt;
  return AppendId{std::string(id), DigestOf(messages, keys), messages.size()};
}

// An append that may be stored.
struct PreparedAppend {
  std::optional<AppendId> id;
  std::vector<Part> parts;
};

Result<PreparedAppend> PrepareAppend(const DatabaseImpl& impl,
                                     std::span<const MessageView> messages, const MessageKeys& keys,
                                     std::string_view id) {
  TOPICDB_RETURN_IF_ERROR(impl.shards().CheckMayWrite());
  TOPICDB_RETURN_IF_ERROR(CheckMessages(messages, keys, impl.environment()));
  PreparedAppend append;
  TOPICDB_ASSIGN_OR_RETURN(append.parts, SplitByShard(impl, messages, keys));
  append.id = MakeAppendId(id, messages, keys);
  if (append.id.has_value()) TOPICDB_RETURN_IF_ERROR(CheckId(impl, *append.id));
  if (!messages.empty()) TOPICDB_RETURN_IF_ERROR(impl.upkeep().CheckQuota());
  return append;
}

// Adds to the error of one shard which shards have stored their messages.
Status WithStored(const Status& status, const Receipt& receipt) {
  std::string shards;
  for (const auto& [shard, serial] : receipt.serials) {
    shards += (shards.empty() ? "" : ", ") + std::to_string(shard);
  }
  if (shards.empty()) return status;
  return Status(status.code(),
                status.message() + "; the messages of shards [" + shards + "] are stored");
}

Status CheckGeneration(const Shard& shard, std::optional<Generation> generation) {
  if (!generation.has_value()) return Status::Ok();
  const auto view = shard.view();
  for (const SlabView& slab : view->slabs()) {
    if (slab.slab->id().generation == *generation) return Status::Ok();
  }
  return NotFound("there is no generation " + std::to_string(generation->value()) + " in " +
                  shard.Name());
}

// Keeps snapshots from having only a part of what is committed to several shards, while it lives.
class WholeCommit {
 public:
  WholeCommit(const DatabaseImpl& impl, std::size_t shards)
      : gate_(shards > 1 ? &impl.commits_gate() : nullptr) {
    if (gate_ != nullptr) gate_->Enter();
  }
  ~WholeCommit() {
    if (gate_ != nullptr) gate_->Leave();
  }
  WholeCommit(const WholeCommit&) = delete;
  WholeCommit& operator=(const WholeCommit&) = delete;

 private:
  PauseGate* const gate_;
};

// Returns whether a commit waits for a disk or for other sites, and not only for this process.
bool WaitsForOthers(Durability durability) {
  return durability == Durability::kDisk || durability == Durability::kQuorum;
}

// Has a commit store a part of an append. The id, if there is one, and the part must outlive it.
void Fill(ShardCommit* commit, const Part& part, const std::optional<AppendId>& id,
          Durability durability) {
  commit->id = id.has_value() ? &*id : nullptr;
  commit->durability = durability;
  commit->bytes = part.bytes;
  commit->messages = part.messages;
}

// An append on its way through the queues of its shards; the last of them calls `done`.
struct AsyncAppend {
  std::shared_ptr<const void> owner;
  std::optional<AppendId> id;
  std::vector<Part> parts;
  std::vector<Serial> serials;  // by part
  std::vector<Status> statuses;
  std::atomic<std::size_t> waiting{0};
  std::atomic<bool> stores_any{false};
  Receipt receipt;
  std::function<void(Result<Receipt>)> done;
  std::optional<WholeCommit> whole;

  void Finish() {
    if (waiting.fetch_sub(1) != 1) return;
    whole.reset();
    Status status;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      // Of several errors, the one counts that leaves open whether something is stored.
      const bool is_unknown = statuses[i].code() == Code::kUnknownOutcome;
      if (statuses[i].ok()) {
        receipt.serials.emplace_back(parts[i].shard->index(), serials[i]);
      } else if (status.ok() || (is_unknown && status.code() != Code::kUnknownOutcome)) {
        status = statuses[i];
      }
    }
    receipt.repeated = id.has_value() && !parts.empty() && !stores_any;
    if (status.ok()) {
      done(std::move(receipt));
    } else {
      done(WithStored(status, receipt));
    }
  }
};

std::shared_ptr<AsyncAppend> MakeAsync(const DatabaseImpl& impl, PreparedAppend prepared,
                                       const Receipt& receipt) {
  auto append = std::make_shared<AsyncAppend>();
  append->id = std::move(prepared.id);
  append->parts = std::move(prepared.parts);
  append->receipt = receipt;
  append->serials.resize(append->parts.size());
  append->statuses.resize(append->parts.size());
  append->waiting = append->parts.size() + 1;
  append->whole.emplace(impl, append->parts.size());
  return append;
}

// Hands the parts to the queues of their shards. One that is urgent does not wait for others.
void Start(const std::shared_ptr<AsyncAppend>& append, bool is_urgent) {
  for (std::size_t i = 0; i < append->parts.size(); ++i) {
    auto commit = std::make_unique<ShardCommit>();
    Fill(commit.get(), append->parts[i], append->id, append->receipt.durability);
    commit->is_urgent = is_urgent;
    ShardCommit* const running = commit.get();
    append->parts[i].shard->CommitAsync(std::move(commit), [append, running, i] {
      append->serials[i] = running->serial;
      append->statuses[i] = running->status;
      if (!running->repeated) append->stores_any = true;
      append->Finish();
    });
  }
  append->Finish();
}

// Commits to all shards at once, and waits for them. Their fsyncs, or those of the log that they
// share, run beside each other.
Result<Receipt> AppendAtOnce(const DatabaseImpl& impl, PreparedAppend prepared,
                             const Receipt& receipt) {
  // The thread that sets it may be about to return from that when this one has it.
  const auto outcome = std::make_shared<std::promise<Result<Receipt>>>();
  const auto append = MakeAsync(impl, std::move(prepared), receipt);
  append->done = [outcome](Result<Receipt> result) { outcome->set_value(std::move(result)); };
  Start(append, /*is_urgent=*/true);
  return outcome->get_future().get();
}

// Commits to one shard after the other.
Result<Receipt> AppendInTurn(const DatabaseImpl& impl, const PreparedAppend& prepared,
                             Receipt receipt) {
  const std::vector<Part>& parts = prepared.parts;
  receipt.repeated = prepared.id.has_value() && !parts.empty();
  const WholeCommit whole(impl, parts.size());
  for (const Part& part : parts) {
    ShardCommit commit;
    Fill(&commit, part, prepared.id, receipt.durability);
    part.shard->Commit(&commit);
    if (!commit.status.ok()) return WithStored(commit.status, receipt);
    receipt.serials.emplace_back(part.shard->index(), commit.serial);
    receipt.repeated = receipt.repeated && commit.repeated;
  }
  return receipt;
}

}  // namespace

Status CheckMessage(const MessageView& message, std::uint32_t timestamp_bytes, TopicUse use) {
  TOPICDB_RETURN_IF_ERROR(CheckTopic(message.topic));
  if (use == TopicUse::kPublic && IsReservedTopic(message.topic)) {
    return TopicFault("topic '" + std::string(message.topic) +
                      "': topics under $topicdb/ are TopicDB's own");
  }
  if (message.timestamp < 0 && message.timestamp != kAssignTimestamp) {
    return InvalidArgument("timestamp " + std::to_string(message.timestamp) +
                           " is outside 0 <= t < 2**63 microseconds");
  }
  if (timestamp_bytes == 0 && message.timestamp > 0) {
    return InvalidArgument("timestamp " + std::to_string(message.timestamp) +
                           ": a database with timestamp_bytes=0 knows no time but 0");
  }
  if (message.value.size() > kValueBytesMax) {
    return InvalidArgument("the value has " + std::to_string(message.value.size()) +
                           " bytes, at most " + std::to_string(kValueBytesMax) + " are allowed");
  }
  return Status::Ok();
}

Status CheckDelete(const Filter& filter, const TimeRange& range, TopicUse use) {
  if (use == TopicUse::kPublic && filter.text().starts_with(kReservedPrefix)) {
    return TopicFault("filter '" + filter.text() + "': topics under $topicdb/ are TopicDB's own");
  }
  if (!range.end.has_value() || range.start.value_or(0) <= *range.end) return Status::Ok();
  return InvalidArgument("the range to delete ends at " + std::to_string(*range.end) +
                         ", before it starts at " + std::to_string(range.start.value_or(0)));
}

Result<Receipt> Database::Append(std::span<const MessageView> messages,
                                 std::optional<Durability> durability, std::string_view id,
                                 const MessageKeys& keys) {
  TOPICDB_ENTER(impl_);
  TOPICDB_ASSIGN_OR_RETURN(PreparedAppend append, PrepareAppend(*impl_, messages, keys, id));
  Receipt receipt;
  receipt.count = messages.size();
  receipt.durability = impl_->DurabilityOf(durability);
  if (append.parts.size() > 1 && WaitsForOthers(receipt.durability)) {
    return AppendAtOnce(*impl_, std::move(append), receipt);
  }
  return AppendInTurn(*impl_, append, std::move(receipt));
}

Result<std::optional<Receipt>> Database::FindAppend(std::string_view id) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->shards().CheckMayWrite());
  TOPICDB_RETURN_IF_ERROR(CheckAppendId(id));
  Receipt receipt;
  for (const auto& shard : impl_->shards().All()) {
    TOPICDB_ASSIGN_OR_RETURN(const std::optional<KnownAppend> known, shard->FindAppend(id));
    if (!known.has_value()) continue;
    receipt.serials.emplace_back(shard->index(), known->serial);
    receipt.count = known->messages;
    receipt.repeated = true;
  }
  if (!receipt.repeated) return std::optional<Receipt>();
  return std::optional(std::move(receipt));
}

Status Database::AppendAsync(std::span<const MessageView> messages,
                             std::shared_ptr<const void> owner,
                             std::optional<Durability> durability,
                             std::function<void(Result<Receipt>)> done, std::string_view id,
                             const MessageKeys& keys) {
  TOPICDB_ENTER(impl_);
  TOPICDB_ASSIGN_OR_RETURN(PreparedAppend prepared, PrepareAppend(*impl_, messages, keys, id));
  Receipt receipt;
  receipt.count = messages.size();
  receipt.durability = impl_->DurabilityOf(durability);
  const auto append = MakeAsync(*impl_, std::move(prepared), receipt);
  append->owner = std::move(owner);
  append->done = std::move(done);
  Start(append, /*is_urgent=*/false);
  return Status::Ok();
}

Result<Receipt> Database::Delete(const Filter& filter, const TimeRange& range,
                                 std::optional<Durability> durability) {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->shards().CheckMayWrite());
  TOPICDB_RETURN_IF_ERROR(CheckDelete(filter, range, TopicUse::kPublic));
  TOPICDB_RETURN_IF_ERROR(impl_->shards().CheckMayChange({filter}).WithContext("delete"));
  Receipt receipt;
  receipt.durability = impl_->DurabilityOf(durability);
  const auto shards = impl_->shards().All();
  const WholeCommit whole(*impl_, shards.size());
  for (const auto& shard : shards) {
    TransactionOps ops;
    ops.deletes.push_back({filter, range});
    ShardCommit commit;
    commit.durability = receipt.durability;
    commit.transaction = &ops;
    shard->Commit(&commit);
    if (!commit.status.ok()) return WithStored(commit.status, receipt);
    receipt.serials.emplace_back(shard->index(), commit.serial);
    receipt.count += commit.deleted;
  }
  return receipt;
}

Result<std::unique_ptr<Transaction>> Database::Begin(const TransactionOptions& options) {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->shards().CheckMayWrite());
  const std::uint32_t shards = schema().shards;
  if (options.shard >= shards) {
    return InvalidArgument("there is no shard " + std::to_string(options.shard) +
                           ", the database has " + std::to_string(shards));
  }
  TOPICDB_ASSIGN_OR_RETURN(auto shard, impl_->shards().Find(options.shard));
  TOPICDB_RETURN_IF_ERROR(shard->PrepareTransaction());
  TOPICDB_RETURN_IF_ERROR(CheckGeneration(*shard, options.generation));
  return std::make_unique<Transaction>(
      std::make_shared<TransactionImpl>(impl_, std::move(shard), options));
}

}  // namespace topicdb
