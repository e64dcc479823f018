// One commit of one shard: data, index entries, new structures, counters, serial and clock in a
// single WriteBatch, so that no crash can separate them.

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "rocks/rocks_compat.h"
#include "store/shard.h"

namespace topicdb {

namespace {
// How far ahead serials are reserved for commits that the log will not have.
constexpr std::uint64_t kSerialReserve = 65'536;
}  // namespace

class CommitBuilder {
 public:
  CommitBuilder(const Shard& shard, const meta::CommitState& before)
      : shard_(shard), state_(before), now_us_(SystemClockUs()) {
    ++state_.serial;
  }

  Status Add(const MessageView& message) TOPICDB_REQUIRES(shard_.commit_mutex_) {
    const RetentionRules& rules = shard_.environment_->rules;
    const std::uint32_t retention_class = rules.size() == 1 ? 0 : rules.ClassOf(message.topic);
    Target& target = TargetOf(retention_class);
    const std::int64_t timestamp = TimestampOf(message, target.slab->timestamp_bytes());
    const NodeId stream = target.edit.Resolve(message.topic, &varying_);
    Count(&target.counters, timestamp, message.topic.size() + message.value.size());
    const PlacedMessage placed{stream, varying_, timestamp, state_.serial, index_++, message.value};
    return rocks::FromRocks(target.slab->layout().Put(placed, target.slab->family(), &batch_),
                            "preparing a commit to " + shard_.Name());
  }

  // Adds everything but the messages. `logged`: whether the commit has to be in the log.
  Status Finish(Durability durability, bool* logged) {
    bool learned = false;
    rocksdb::Status status;
    for (auto& [retention_class, target] : targets_) {
      const SlabId& id = target.slab->id();
      for (const NodeRecord& node : target.edit.nodes()) {
        learned = true;
        if (status.ok()) status = batch_.Put(meta::NodeKey(id, node.id), meta::Encode(node));
      }
      if (status.ok()) status = batch_.Put(meta::CountersKey(id), meta::Encode(target.counters));
    }
    // Later, logged commits may rely on structures learned here: those are always logged.
    *logged = durability != Durability::kNone || learned || state_.serial > state_.serial_limit;
    if (durability == Durability::kNone && state_.serial > state_.serial_limit) {
      state_.serial_limit = state_.serial + kSerialReserve;
    }
    state_.serial_limit = std::max(state_.serial_limit, state_.serial);
    if (status.ok()) status = batch_.Put(meta::CommitStateKey(), meta::Encode(state_));
    return rocks::FromRocks(status, "preparing a commit to " + shard_.Name());
  }

  void Apply() {
    for (auto& [retention_class, target] : targets_) {
      target.slab->ApplyCommit(target.edit, target.counters);
    }
  }

  rocksdb::WriteBatch* batch() { return &batch_; }
  const meta::CommitState& state() const { return state_; }

 private:
  // What the commit does to the current slab of one class.
  struct Target {
    std::shared_ptr<Slab> slab;
    StructureEdit edit;
    meta::SlabCounters counters;
  };

  Target& TargetOf(std::uint32_t retention_class) TOPICDB_REQUIRES(shard_.commit_mutex_) {
    const auto found = targets_.find(retention_class);
    if (found != targets_.end()) return found->second;
    const std::shared_ptr<Slab>& slab = shard_.CurrentSlab(retention_class)->slab;
    Target target{slab, StructureEdit(slab->TrieForCommit()), slab->CountersForCommit()};
    return targets_.emplace(retention_class, std::move(target)).first->second;
  }

  std::int64_t TimestampOf(const MessageView& message, std::uint32_t timestamp_bytes) {
    if (message.timestamp != kAssignTimestamp) return message.timestamp;
    if (timestamp_bytes == 0) return 0;
    state_.clock_us = std::max(state_.clock_us + 1, now_us_);
    return state_.clock_us;
  }

  static void Count(meta::SlabCounters* counters, std::int64_t timestamp, std::size_t bytes) {
    const bool first = counters->messages == 0;
    counters->first_timestamp = first ? timestamp : std::min(counters->first_timestamp, timestamp);
    counters->last_timestamp = first ? timestamp : std::max(counters->last_timestamp, timestamp);
    ++counters->messages;
    counters->bytes += bytes;
  }

  const Shard& shard_;
  meta::CommitState state_;
  const std::int64_t now_us_;
  std::uint32_t index_ = 0;
  std::map<std::uint32_t, Target> targets_;  // by class
  std::vector<std::string_view> varying_;
  rocksdb::WriteBatch batch_;
};

Result<std::uint64_t> Shard::Commit(std::span<const MessageView> messages, Durability durability) {
  const MutexLock lock(commit_mutex_);
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  CommitBuilder builder(*this, state_);
  for (const MessageView& message : messages) TOPICDB_RETURN_IF_ERROR(builder.Add(message));
  bool logged = true;
  TOPICDB_RETURN_IF_ERROR(builder.Finish(durability, &logged));

  rocksdb::WriteOptions options;
  options.sync = durability == Durability::kDisk;
  options.disableWAL = !logged;
  TOPICDB_RETURN_IF_ERROR(Write(options, builder.batch()));
  builder.Apply();
  state_ = builder.state();
  Publish(slabs_);
  return state_.serial;
}

}  // namespace topicdb
