// Builds one RocksDB batch of commits. The batch has data, index entries, new structures, counters,
// serial and clock together, so that no crash can separate them.
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
#include "topicdb/types/numbers.h"
#include "topicdb/types/times.h"

namespace topicdb {

// Builds one batch of commits. The Committer makes it under the shard's commit mutex, and destroys
// it before it releases the mutex, so one thread uses it. If the batch is not applied, the builder
// clears the shard's cache of topics (ShardState::topics), which may have streams of the batch.
class CommitBuilder {
 public:
  // `append_ids` are those of the shard. With `notes_replaced`, the builder fills in replaced().
  CommitBuilder(ShardState& shard, const AppendIds& append_ids, bool notes_replaced,
                const ExpectedWrites& expected) TOPICDB_REQUIRES(shard.mutex);
  ~CommitBuilder();
  CommitBuilder(const CommitBuilder&) = delete;
  CommitBuilder& operator=(const CommitBuilder&) = delete;

  // Adds the deletes of a commit, then its messages, and gives it a serial. Does nothing if it has
  // neither. After a failure the builder must not be used any more.
  Status Add(ShardCommit* commit) TOPICDB_REQUIRES(shard_.mutex);
  // Adds what a job has staged, whose pages are stored already. Gives each block a serial of its
  // own. After a failure the builder must not be used any more.
  Status AddStaged(ShardCommit* commit) TOPICDB_REQUIRES(shard_.mutex);
  // Returns whether no commit was added.
  bool empty() const { return state_.serial == first_serial_; }

  // Adds everything but the messages to the batch. Sets `logged` to whether the batch has to be in
  // the log.
  Status Finish(bool* logged);
  // Brings the slabs in memory up to date. The caller must call this once the batch is written.
  void Apply();

  rocksdb::WriteBatch* batch() { return &batch_; }
  // Returns the commit state after the commits.
  const meta::CommitState& state() const { return state_; }
  // Returns the time that the builder assigns to messages, unless the last assigned timestamp is as
  // late or later.
  WallTime now() const { return now_; }
  // Returns the deletes that are too large to be carried out in the batch, which has their records.
  const std::vector<meta::DeleteRecord>& deletes() const { return deletes_; }
  // Returns the timestamps that were assigned, in the order of their messages.
  const std::vector<std::int64_t>& assigned() const { return assigned_; }
  // Returns whether the batch removes messages of other slabs because messages of the batch take
  // their place.
  bool replaces_any() const { return replaces_any_; }
  // Returns what the batch removes for that reason. Empty unless the builder notes it.
  const std::vector<meta::DeleteRecord>& replaced() const { return replaced_; }
  // Returns the ids of the appends that were added, by serial.
  const std::vector<std::pair<std::string, KnownAppend>>& ids() const { return ids_; }
  // Returns whether an append with this id was added.
  bool HasId(std::string_view id) const;
  // Returns the record of the job that AddStaged has added.
  const meta::JobRecord& job() const { return job_; }

 private:
  // What the commits change in the current slab of one class.
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
  // Adds the removal of the ids that are too many once the ids of the batch are added.
  rocksdb::Status ForgetIds();
  Status AddDeletes(ShardCommit* commit) TOPICDB_REQUIRES(shard_.mutex);
  // Sets hashes_.
  void HashTopics(std::span<const MessageView> messages);
  // Fetches what the next messages need into the processor's cache; see TopicCache.
  void FetchAhead(std::size_t index) const;
  Status AddMessage(const MessageView& message, std::uint32_t index) TOPICDB_REQUIRES(shard_.mutex);
  // Returns the message with its stream, and without its timestamp and its index. Sets
  // `retention_class` to its class.
  PlacedMessage Place(const MessageView& message, std::uint64_t hash,
                      RetentionClassId* retention_class) TOPICDB_REQUIRES(shard_.mutex);
  // Does the same for a topic of this class that is not in topics_.
  PlacedMessage PlaceNew(const MessageView& message, std::uint64_t hash,
                         RetentionClassId retention_class) TOPICDB_REQUIRES(shard_.mutex);
  // Does the same for a topic that was staged for this class. The topic may belong to another class
  // by now.
  PlacedMessage PlaceIn(RetentionClassId retention_class, std::string_view topic)
      TOPICDB_REQUIRES(shard_.mutex);
  Target& TargetOf(RetentionClassId retention_class) TOPICDB_REQUIRES(shard_.mutex);
  // Gives a staged block its serial and the shift of its times. The caller must set its streams.
  StagedPlace PlaceStaged(const StagedBlock& block);
  Status AddStagedBlock(const StagedPart& part, const StagedBlock& block)
      TOPICDB_REQUIRES(shard_.mutex);
  // Adds a part message by message, for layouts that take no blocks.
  Status AddStagedMessages(const StagedPart& part, const StagedMessages& staged)
      TOPICDB_REQUIRES(shard_.mutex);
  // Returns the timestamp of a message. Assigns it if the message has none.
  std::int64_t TimestampOf(const MessageView& message, std::uint32_t timestamp_bytes);
  // Adds a message to its slab. If the layout overwrites, also removes the messages with its topic
  // and timestamp from the other slabs.
  Status Write(Target* target, const PlacedMessage& placed) TOPICDB_REQUIRES(shard_.mutex);
  // Removes the messages with the same topic and timestamp from slabs other than `current`.
  Status RemoveOlder(const Slab& current, const PlacedMessage& placed)
      TOPICDB_REQUIRES(shard_.mutex);

  const ShardState& shard_;
  const AppendIds& append_ids_;
  const bool notes_replaced_;
  const Serial first_serial_;
  meta::CommitState state_;
  meta::JobRecord job_;
  const WallTime now_;
  Durability durability_ = Durability::kNone;  // the highest that a commit asks for
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
  const bool samples_;  // new topics go to the samples of their slabs
  bool applied_ = false;
  rocksdb::WriteBatch batch_;
};

}  // namespace topicdb
