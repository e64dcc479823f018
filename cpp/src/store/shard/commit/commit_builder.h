// One RocksDB batch of commits: data, index entries, new structures, counters, serial and clock
// together, so that no crash can separate them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/write_batch.h>

#include "commit/append_ids.h"
#include "store/job/staged_file.h"
#include "store/shard/commit/shard_commit.h"
#include "store/shard/state/shard_state.h"

namespace topicdb {

// Builds one batch of commits. The Committer makes it under the shard's commit mutex, and destroys
// it before it releases the mutex. If what was built is not applied, the shard's topics are
// cleared.
class CommitBuilder {
 public:
  // append_ids: those of the shard. notes_replaced: `replaced()` is wanted.
  CommitBuilder(ShardState& shard, const AppendIds& append_ids, bool notes_replaced,
                const ExpectedWrites& expected) TOPICDB_REQUIRES(shard.mutex);
  ~CommitBuilder();
  CommitBuilder(const CommitBuilder&) = delete;
  CommitBuilder& operator=(const CommitBuilder&) = delete;

  // Adds the deletes of a commit, then its messages, and gives it a serial. After a failure the
  // builder is of no more use.
  Status Add(ShardCommit* commit) TOPICDB_REQUIRES(shard_.mutex);
  // The same for what a job has staged; its pages are stored already.
  Status AddStaged(ShardCommit* commit) TOPICDB_REQUIRES(shard_.mutex);
  bool empty() const { return state_.serial == first_serial_; }

  // Adds everything but the messages. `logged`: whether the batch has to be in the log.
  Status Finish(bool* logged);
  // To be called when the batch is written.
  void Apply();

  rocksdb::WriteBatch* batch() { return &batch_; }
  const meta::CommitState& state() const { return state_; }
  // What messages get as their time unless that would not be later than the last.
  std::int64_t now_us() const { return now_us_; }
  // Deletes that are too large to be carried out in the batch; it has their records.
  const std::vector<meta::DeleteRecord>& deletes() const { return deletes_; }
  // Timestamps that were assigned, in the order of their messages.
  const std::vector<std::int64_t>& assigned() const { return assigned_; }
  // Whether messages of other slabs are removed, since others take their place; and which, if that
  // is wanted.
  bool replaces_any() const { return replaces_any_; }
  const std::vector<meta::DeleteRecord>& replaced() const { return replaced_; }
  // Ids of the appends that were added, by serial.
  const std::vector<std::pair<std::string, KnownAppend>>& ids() const { return ids_; }
  bool HasId(std::string_view id) const;
  // Of what AddStaged has added.
  const meta::JobRecord& job() const { return job_; }

 private:
  // What the commits do to the current slab of one class.
  struct Target {
    std::shared_ptr<Slab> slab;
    StructureEdit edit;
    TopicSample::Edit sample;
    meta::SlabCounters counters;
    std::unique_ptr<SlabWriter> writer;
    bool overwrites = false;
    std::uint64_t staged_blocks = 0;
  };

  Status AddId(const ShardCommit& commit);
  // Takes those out of the batch's reach that its ids push out of the window.
  rocksdb::Status ForgetIds();
  Status AddDeletes(ShardCommit* commit) TOPICDB_REQUIRES(shard_.mutex);
  void HashTopics(std::span<const MessageView> messages);
  void FetchAhead(std::size_t index) const;
  Status AddMessage(const MessageView& message, std::uint32_t index) TOPICDB_REQUIRES(shard_.mutex);
  // The place of a message but for its time; its class is in `retention_class`.
  PlacedMessage Place(const MessageView& message, std::uint64_t hash,
                      RetentionClassId* retention_class) TOPICDB_REQUIRES(shard_.mutex);
  // The same for a topic that is not in topics_, and of this class.
  PlacedMessage PlaceNew(const MessageView& message, std::uint64_t hash,
                         RetentionClassId retention_class) TOPICDB_REQUIRES(shard_.mutex);
  // A topic that was staged for a class, which may not be its own any more.
  PlacedMessage PlaceIn(RetentionClassId retention_class, std::string_view topic)
      TOPICDB_REQUIRES(shard_.mutex);
  Target& TargetOf(RetentionClassId retention_class) TOPICDB_REQUIRES(shard_.mutex);
  // What a commit decides of a staged block but for its streams.
  StagedPlace PlaceStaged(const StagedBlock& block);
  Status AddStagedBlock(const StagedPart& part, const StagedBlock& block)
      TOPICDB_REQUIRES(shard_.mutex);
  // For layouts that take no blocks: message by message.
  Status AddStagedMessages(const StagedPart& part, const std::string& directory)
      TOPICDB_REQUIRES(shard_.mutex);
  std::int64_t TimestampOf(const MessageView& message, std::uint32_t timestamp_bytes);
  // Adds a message to its slab. If the layout overwrites, it takes the place of what other slabs
  // have of its topic and time.
  Status Write(Target* target, const PlacedMessage& placed) TOPICDB_REQUIRES(shard_.mutex);
  Status RemoveOlder(const Slab& current, const PlacedMessage& placed)
      TOPICDB_REQUIRES(shard_.mutex);

  const ShardState& shard_;
  const AppendIds& append_ids_;
  const bool notes_replaced_;
  const std::uint64_t first_serial_;
  meta::CommitState state_;
  meta::JobRecord job_;
  const std::int64_t now_us_;
  Durability durability_ = Durability::kNone;  // the highest that is asked for
  std::map<RetentionClassId, Target> targets_;
  std::vector<meta::DeleteRecord> deletes_;
  bool deletes_any_ = false;
  std::vector<std::pair<std::string, KnownAppend>> ids_;
  std::vector<std::int64_t> assigned_;
  std::vector<const Slab*> older_;
  std::map<SlabId, std::unique_ptr<SlabRemover>> removers_;  // of slabs with older copies
  std::vector<meta::DeleteRecord> replaced_;
  bool replaces_any_ = false;
  std::vector<std::string_view> varying_;
  TopicCache* const topics_;
  std::vector<std::uint64_t> hashes_;  // of the topics of the commit that is added
  const ExpectedWrites expected_;
  const bool samples_;  // whether topics are kept to learn from
  bool applied_ = false;
  rocksdb::WriteBatch batch_;
};

}  // namespace topicdb
