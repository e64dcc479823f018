#include "store/shard/commit/commit_builder.h"

#include <algorithm>

#include "base/bytes/coding.h"
#include "rocks/pages_file.h"
#include "rocks/rocks_compat.h"
#include "store/read/stream_plan.h"
#include "store/shard/commit/delete_expander.h"
#include "store/shard/commit/shard_jobs.h"

namespace topicdb {

namespace {

// A delete of more messages than this, or one that must look at more than kExaminedMax, is
// committed as a record and carried out in steps.
constexpr std::size_t kDirectDeletesMax = 10'000;

// Messages between two steps of fetching a topic. It is large enough for memory to answer in
// between, and small enough for the processor's cache.
constexpr std::size_t kFetchStep = 4;

// The bytes that a row takes beside its topic and value, about.
constexpr std::size_t kRowBytes = 32;

}  // namespace

CommitBuilder::CommitBuilder(ShardState& shard, const AppendIds& append_ids, bool notes_replaced,
                             const ExpectedWrites& expected)
    : shard_(shard),
      append_ids_(append_ids),
      notes_replaced_(notes_replaced),
      first_serial_(shard.commit.serial),
      state_(shard.commit),
      now_(shard.clock.Look().believed_time),
      topics_(&shard.topics),
      expected_(expected),
      samples_(shard.environment->learning.adaptive),
      batch_(expected.bytes + expected.rows * kRowBytes) {}

CommitBuilder::~CommitBuilder() {
  if (!applied_ && !targets_.empty()) topics_->Clear();
}

Status CommitBuilder::Add(ShardCommit* commit) {
  const TransactionOps* ops = commit->transaction;
  if (commit->messages.empty() && (ops == nullptr || ops->deletes.empty())) return Status::Ok();
  commit->serial = ++state_.serial;
  commit->written = true;
  durability_ = std::max(durability_, commit->durability);
  if (ops != nullptr) TOPICDB_RETURN_IF_ERROR(AddDeletes(commit));
  if (commit->id != nullptr) TOPICDB_RETURN_IF_ERROR(AddId(*commit));
  std::string serial_value;
  AppendBig<std::uint64_t>(&serial_value, commit->serial.value());
  HashTopics(commit->messages);
  for (std::uint32_t index = 0; index < commit->messages.size(); ++index) {
    FetchAhead(index);
    MessageView message = commit->messages[index];
    if (ops != nullptr && !ops->is_serial.empty() && ops->is_serial[index]) {
      message.value = serial_value;
    }
    TOPICDB_RETURN_IF_ERROR(AddMessage(message, index));
  }
  return Status::Ok();
}

bool CommitBuilder::HasId(std::string_view id) const {
  return std::any_of(ids_.begin(), ids_.end(), [&](const auto& item) { return item.first == id; });
}

Status CommitBuilder::AddId(const ShardCommit& commit) {
  const AppendId& append = *commit.id;
  ids_.emplace_back(append.id, KnownAppend{commit.serial, append.messages, append.digest});
  return rocks::FromRocks(
      batch_.Put(meta::AppendIdKey(commit.serial), meta::Encode(append.id, ids_.back().second)),
      "preparing a commit to " + shard_.Name());
}

rocksdb::Status CommitBuilder::ForgetIds() {
  rocksdb::Status status;
  for (const Serial serial : append_ids_.ForgottenAfter(ids_.size())) {
    if (status.ok()) status = batch_.Delete(meta::AppendIdKey(serial));
  }
  return status;
}

Status CommitBuilder::AddStaged(ShardCommit* commit) {
  const StagedMessages& staged = *commit->staged;
  durability_ = Durability::kDisk;
  const Serial first_serial = state_.serial.Next();
  job_ = JobAfter(*shard_.jobs, staged);
  job_.applied_at = now_;
  for (const StagedPart& part : staged.parts) {
    const bool takes_blocks = TargetOf(part.retention_class).slab->log() != nullptr;
    TOPICDB_RETURN_IF_ERROR(
        takes_blocks
            ? ForEachStagedBlock(part, [&](const StagedBlock& block) TOPICDB_REQUIRES(
                                           shard_.mutex) { return AddStagedBlock(part, block); })
            : AddStagedMessages(part, staged));
    job_.messages += part.messages;
  }
  job_.last = {staged.number, first_serial, state_.serial, staged.committed_at, staged.shards};
  commit->serial = state_.serial;
  commit->written = true;
  return rocks::FromRocks(batch_.Put(meta::JobKey(staged.sequence), meta::Encode(job_)),
                          "preparing a commit to " + shard_.Name());
}

StagedPlace CommitBuilder::PlaceStaged(const StagedBlock& block) {
  StagedPlace place{++state_.serial, 0, {}};
  if (!block.assigns_times) return place;
  place.time_shift = std::max(state_.assigned_timestamp + 1, TimestampAt(now_));
  state_.assigned_timestamp = place.time_shift + block.last_time;
  return place;
}

Status CommitBuilder::AddStagedMessages(const StagedPart& part, const StagedMessages& staged) {
  std::unique_ptr<rocks::PagesFileReader> file;
  KeySource source;
  if (staged.pages) {
    source = staged.pages(part);
  } else {
    TOPICDB_ASSIGN_OR_RETURN(
        file, rocks::PagesFileReader::Open(staged.directory + "/" + part.pages_file));
    source = [&file](std::string_view key) { return file->Get(key); };
  }
  Target& target = TargetOf(part.retention_class);
  StagedPlace place;
  const auto add = [&](const StagedMessage& message) TOPICDB_REQUIRES(shard_.mutex) {
    PlacedMessage placed = PlaceIn(part.retention_class, message.topic);
    placed.value = message.value;
    placed.serial = place.serial;
    placed.timestamp = target.slab->timestamp_bytes() == 0 ? 0 : message.time + place.time_shift;
    placed.index = message.index;
    return Write(&target, placed);
  };
  return ForEachStagedBlock(part, [&](const StagedBlock& block) TOPICDB_REQUIRES(shard_.mutex) {
    place = PlaceStaged(block);
    return ForEachStagedMessage(block, source, add);
  });
}

Status CommitBuilder::AddStagedBlock(const StagedPart& part, const StagedBlock& block) {
  StagedPlace place = PlaceStaged(block);
  std::vector<StreamId> streams;
  streams.reserve(block.topics.size());
  for (const StagedTopic& topic : block.topics) {
    streams.push_back(PlaceIn(part.retention_class, topic.text).stream);
  }
  place.streams = streams;
  Target& target = TargetOf(part.retention_class);
  target.counters.Count(block.rows, block.first_time + place.time_shift,
                        block.last_time + place.time_shift, block.bytes);
  ++target.staged_blocks;
  return target.slab->log()->InstallStaged(target.slab->families(), target.slab->layout_state(),
                                           block, place, &batch_);
}

void CommitBuilder::HashTopics(std::span<const MessageView> messages) {
  hashes_.clear();
  hashes_.reserve(messages.size());
  for (const MessageView& message : messages) {
    hashes_.push_back(TopicCache::HashOf(message.topic));
  }
}

void CommitBuilder::FetchAhead(std::size_t index) const {
  const auto ahead = [&](std::size_t messages) { return index + messages < hashes_.size(); };
  if (ahead(kFetchStep)) topics_->FetchText(hashes_[index + kFetchStep]);
  if (ahead(2 * kFetchStep)) topics_->FetchTopic(hashes_[index + 2 * kFetchStep]);
  if (ahead(3 * kFetchStep)) topics_->FetchSlot(hashes_[index + 3 * kFetchStep]);
}

Status CommitBuilder::AddDeletes(ShardCommit* commit) {
  DeleteExpander expander(shard_, &batch_, kDirectDeletesMax);
  std::uint32_t records = 0;
  for (const KeyRange& keys : commit->transaction->deletes) {
    // The deletes of a commit do not affect the messages of the same commit, which come after them.
    meta::DeleteRecord record{state_.serial.Previous(), records, keys,
                              commit->transaction->generation.value_or(meta::kEveryGeneration)};
    expander.LimitExamined(DeleteExpander::kExaminedMax);
    TOPICDB_ASSIGN_OR_RETURN(const bool complete, expander.Remove(record, /*masked=*/true));
    if (complete) continue;
    ++records;
    commit->hides = true;
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
        batch_.Put(meta::DeleteKey(record.serial, record.index), meta::Encode(record)),
        "preparing a delete in " + shard_.Name()));
    deletes_.push_back(std::move(record));
  }
  TOPICDB_RETURN_IF_ERROR(expander.Finish());
  commit->deleted = expander.removed();
  deletes_any_ = deletes_any_ || !commit->transaction->deletes.empty();
  return Status::Ok();
}

Status CommitBuilder::AddMessage(const MessageView& message, std::uint32_t index) {
  RetentionClassId retention_class;
  PlacedMessage placed = Place(message, hashes_[index], &retention_class);
  Target& target = TargetOf(retention_class);
  placed.timestamp = TimestampOf(message, target.slab->timestamp_bytes());
  placed.index = index;
  return Write(&target, placed);
}

Status CommitBuilder::Write(Target* target, const PlacedMessage& placed) {
  target->counters.Count(1, placed.timestamp, placed.timestamp,
                         placed.topic.size() + placed.value.size());
  if (target->overwrites) TOPICDB_RETURN_IF_ERROR(RemoveOlder(*target->slab, placed));
  const rocksdb::Status status = target->writer->Add(placed);
  if (status.ok()) return Status::Ok();
  return rocks::FromRocks(status, "preparing a commit to " + shard_.Name());
}

Status CommitBuilder::RemoveOlder(const Slab& current, const PlacedMessage& placed) {
  shard_.older_copies.Find(current, placed.topic, placed.timestamp, &older_);
  std::size_t removed = 0;
  for (const Slab* slab : older_) {
    std::vector<std::string_view> varying;
    const StreamId stream = slab->FindStream(placed.topic, &varying);
    if (stream == kNoStream) continue;
    auto& remover = removers_[slab->id()];
    if (remover == nullptr) {
      remover = slab->layout().NewRemover({shard_.db.get(), nullptr, slab->families()}, &batch_);
    }
    TOPICDB_RETURN_IF_ERROR(
        remover->RemovePoint({stream, placed.topic, varying, placed.timestamp, kNoSerial, 0, {}},
                             MasksOf(*shard_.deletes, slab->id()), placed.serial, &removed));
  }
  if (removed == 0) return Status::Ok();
  replaces_any_ = true;
  if (!notes_replaced_) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(Filter topic, Filter::Parse(placed.topic));
  replaced_.push_back({placed.serial.Previous(),
                       0,
                       {std::move(topic), Instant(placed.timestamp)},
                       meta::kEveryGeneration});
  return Status::Ok();
}

PlacedMessage CommitBuilder::Place(const MessageView& message, std::uint64_t hash,
                                   RetentionClassId* retention_class) {
  TopicCache::Topic* const topic = topics_->Find(message.topic, hash);
  if (topic == nullptr) {
    *retention_class = shard_.rules->ClassOf(message.topic);
    return PlaceNew(message, hash, *retention_class);
  }
  *retention_class = topic->retention_class;
  return {topic->stream, message.topic, {}, 0, state_.serial, 0, message.value, &topic->mark};
}

PlacedMessage CommitBuilder::PlaceNew(const MessageView& message, std::uint64_t hash,
                                      RetentionClassId retention_class) {
  Target& target = TargetOf(retention_class);
  const StreamId stream = target.edit.Resolve(message.topic, &varying_);
  if (samples_ && retention_class != shard_.rules->reserved()) {
    target.sample.Add(message.topic, hash);
  }
  PlacedMessage placed{stream, message.topic, {}, 0, state_.serial, 0, message.value};
  if (target.slab->layout().needs_words()) {
    placed.varying = varying_;
  } else {
    placed.mark = &topics_->Add(message.topic, hash, retention_class, stream)->mark;
  }
  return placed;
}

PlacedMessage CommitBuilder::PlaceIn(RetentionClassId retention_class, std::string_view topic) {
  const std::uint64_t hash = TopicCache::HashOf(topic);
  const TopicCache::Topic* const known = topics_->Find(topic, hash);
  RetentionClassId own_class =
      known != nullptr ? known->retention_class : shard_.rules->ClassOf(topic);
  if (own_class == retention_class) {
    return known != nullptr ? Place({topic, 0, {}}, hash, &own_class)
                            : PlaceNew({topic, 0, {}}, hash, own_class);
  }
  // The classes were changed since the topic was staged.
  const StreamId stream = TargetOf(retention_class).edit.Resolve(topic, &varying_);
  return {stream, topic, varying_, 0, state_.serial, 0, {}};
}

Status CommitBuilder::Finish(bool* logged) {
  bool learned = false;
  rocksdb::Status status;
  for (auto& [retention_class, target] : targets_) {
    if (status.ok()) status = target.writer->Finish();
    const SlabId& id = target.slab->id();
    for (const NodeRecord& node : target.edit.nodes()) {
      learned = true;
      if (status.ok()) status = batch_.Put(meta::NodeKey(id, node.id), meta::Encode(node));
    }
    if (status.ok()) status = target.sample.Write(id, state_.serial, &batch_);
    if (status.ok()) status = batch_.Put(meta::CountersKey(id), meta::Encode(target.counters));
  }
  // New structures are always logged, because later commits that are logged may rely on them.
  // Deletes are, because a later delete leaves out what is deleted already. Ids are, because an
  // append that is repeated counts as stored, whatever durability it asks for then.
  *logged =
      durability_ != Durability::kNone || learned || deletes_any_ || replaces_any_ || !ids_.empty();
  for (const auto& [slab, remover] : removers_) TOPICDB_RETURN_IF_ERROR(remover->Finish());
  if (status.ok()) status = ForgetIds();
  if (status.ok()) status = batch_.Put(meta::CommitStateKey(), meta::Encode(state_));
  return rocks::FromRocks(status, "preparing a commit to " + shard_.Name());
}

void CommitBuilder::Apply() {
  applied_ = true;
  for (auto& [retention_class, target] : targets_) {
    target.writer->Apply();
    target.slab->layout_state()->fresh_blocks += target.staged_blocks;
    target.slab->ApplyCommit(target.edit, target.counters);
    target.slab->MutableSample()->Apply(target.sample);
  }
}

CommitBuilder::Target& CommitBuilder::TargetOf(RetentionClassId retention_class) {
  const auto found = targets_.find(retention_class);
  if (found != targets_.end()) return found->second;
  const std::shared_ptr<Slab>& slab = shard_.CurrentSlab(retention_class)->slab;
  Target target{
      slab, StructureEdit(slab->TrieForCommit()), TopicSample::Edit(slab->SampleForCommit()),
      slab->CountersForCommit(),
      slab->layout().NewWriter(slab->families(), slab->layout_state(), expected_, &batch_)};
  target.overwrites = slab->layout().overwrites();
  return targets_.emplace(retention_class, std::move(target)).first->second;
}

std::int64_t CommitBuilder::TimestampOf(const MessageView& message, std::uint32_t timestamp_bytes) {
  if (message.timestamp != kAssignTimestamp) return message.timestamp;
  if (timestamp_bytes == 0) {
    assigned_.push_back(0);
  } else {
    state_.assigned_timestamp = std::max(state_.assigned_timestamp + 1, TimestampAt(now_));
    assigned_.push_back(state_.assigned_timestamp);
  }
  return assigned_.back();
}

}  // namespace topicdb
