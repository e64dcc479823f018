#include "store/shard/commit/transaction_check.h"

#include <algorithm>

#include "commit/key_range.h"
#include "store/read/point_lookup.h"
#include "topicdb/envelope.h"
#include "topicdb/topic.h"

namespace topicdb {

Status TransactionCheck::Check(ShardCommit* commit) const {
  TOPICDB_RETURN_IF_ERROR(CheckGeneration(*commit));
  TOPICDB_RETURN_IF_ERROR(CheckConflicts(commit));
  return CheckRequirements(commit);
}

Status TransactionCheck::CheckGeneration(const ShardCommit& commit) const {
  const std::optional<Generation>& generation = commit.transaction->generation;
  if (!generation.has_value()) return Status::Ok();
  for (const MessageView& message : commit.messages) {
    const RetentionClassId retention_class = shard_.rules->ClassOf(message.topic);
    const std::shared_ptr<Slab>& slab = shard_.CurrentSlab(retention_class)->slab;
    const Generation current = slab == nullptr ? Generation{} : slab->id().generation;
    if (current == *generation) continue;
    return ReadOnly("generation " + std::to_string(generation->value()) + " of class '" +
                    shard_.rules->FilterOf(retention_class) + "' in " + shard_.Name() +
                    " takes no messages: the current one is " + std::to_string(current.value()));
  }
  return Status::Ok();
}

Status TransactionCheck::CheckConflicts(ShardCommit* commit) const {
  const TransactionOps& ops = *commit->transaction;
  if (!ops.start_serial.has_value()) return Status::Ok();
  const auto open_for = std::chrono::steady_clock::now() - ops.begun;
  const bool changes = !commit->messages.empty() || !ops.deletes.empty();
  // A transaction that only reads has read one moment, so nothing can conflict with it.
  if (!changes && ops.requirements.empty()) return Status::Ok();
  if (open_for > shard_.environment->commit.conflict_window || memory_.Forgot(*ops.start_serial)) {
    commit->fault.conflicts.push_back({"#", {}, kNoSerial});
    const auto ms = [](auto time) {
      return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
    };
    return Conflict(
        "it is no longer known what changed since the transaction began: it was open for " +
        ms(open_for) + " ms (conflict_window is " + ms(shard_.environment->commit.conflict_window) +
        " ms, conflict_entries_max " +
        std::to_string(shard_.environment->commit.conflict_entries_max) +
        "), or a generation was dropped, or began with another layout; nothing was applied: run "
        "it again");
  }
  std::string text;
  const auto check = [&](const KeyRange& keys) TOPICDB_REQUIRES(shard_.mutex) {
    const Serial serial = memory_.FindChange(keys, *ops.start_serial);
    if (serial == kNoSerial) return;
    commit->fault.conflicts.push_back({keys.filter.text(), keys.range, serial});
    if (text.empty()) {
      text = Describe(keys) + " was changed by commit " + std::to_string(serial.value());
    }
  };
  for (const KeyRange& keys : ops.reads) check(keys);
  for (const KeyRange& keys : ops.deletes) check(keys);
  for (const Requirement& requirement : ops.requirements) {
    TOPICDB_ASSIGN_OR_RETURN(Filter topic, Filter::Parse(requirement.topic));
    check({std::move(topic), Instant(requirement.timestamp)});
  }
  if (text.empty()) return Status::Ok();
  return Conflict(text + " since the transaction began; nothing was applied: run it again");
}

Status TransactionCheck::CheckRequirements(ShardCommit* commit) const {
  const TransactionOps& ops = *commit->transaction;
  for (const Requirement& requirement : ops.requirements) {
    const PointLookup lookup{*shard_.slabs,
                             *shard_.deletes,
                             shard_.db.get(),
                             nullptr,
                             shard_.rules->ClassesWith(requirement.topic),
                             ops.generation};
    TOPICDB_ASSIGN_OR_RETURN(auto found, lookup.Find(requirement.topic, requirement.timestamp));
    std::optional<std::string> value;
    if (found.has_value()) {
      // The value that readers see is the payload. TopicDB's own values have no envelope.
      const bool is_own = requirement.topic.starts_with(kReservedPrefix);
      value = is_own ? std::move(found->value) : std::string(PayloadOf(found->value));
    }
    if (requirement.IsMetBy(value)) continue;
    commit->fault.preconditions.push_back({requirement.topic, requirement.timestamp,
                                           requirement.value, std::move(value),
                                           requirement.any_value});
  }
  if (commit->fault.preconditions.empty()) return Status::Ok();
  const PreconditionItem& first = commit->fault.preconditions.front();
  const auto show = [](const std::optional<std::string>& value) {
    return value.has_value() ? "a message of " + std::to_string(value->size()) + " bytes"
                             : std::string("none");
  };
  const std::string expected = first.expects_any ? "a message" : show(first.expected);
  return PreconditionFault("topic '" + first.topic + "' at " + std::to_string(first.timestamp) +
                           ": expected " + expected + ", found " + show(first.found) +
                           (first.expected && first.found ? " with another value" : "") +
                           "; nothing was applied");
}

void TransactionCheck::Remember(const CommitBuilder& builder,
                                std::span<ShardCommit* const> commits) {
  const auto now = std::chrono::steady_clock::now();
  if (now - aged_at_ > shard_.environment->commit.conflict_window) {
    memory_.Age();
    aged_at_ = now;
  }
  auto assigned = builder.assigned().begin();
  for (const ShardCommit* commit : commits) {
    if (commit->transaction != nullptr && (commit->deleted > 0 || commit->hides)) {
      for (const KeyRange& keys : commit->transaction->deletes) {
        memory_.RecordDelete(keys, commit->serial);
      }
    }
    for (const MessageView& message : commit->messages) {
      const bool is_assigned = message.timestamp == kAssignTimestamp;
      memory_.RecordWrite(message.topic, is_assigned ? *assigned : message.timestamp,
                          commit->serial);
      if (is_assigned) ++assigned;
    }
  }
}

}  // namespace topicdb
