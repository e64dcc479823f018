// Writes well-formed inputs of record_fuzzer into the directory that is its argument.
#include <chrono>
#include <fstream>
#include <string>

#include "layout/skipstream/skipstream_keys.h"
#include "record_input.h"
#include "replication/cluster/site_call.h"
#include "replication/cluster/site_identity.h"
#include "replication/digest/replica_digest.h"
#include "replication/entry.h"
#include "replication/forward/leader_call.h"
#include "replication/snapshot/damage_note.h"
#include "replication/snapshot/snapshot_manifest.h"
#include "replication/state/cluster_state.h"
#include "store/catalog/descriptor.h"
#include "store/catalog/meta.h"
#include "store/catalog/retention_file.h"
#include "store/job/staged_records.h"
#include "structure/structure_trie.h"
#include "topicdb/envelope.h"
#include "topicdb/types/iterator.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCrcBytes = 4;                // the fuzzer adds it
constexpr std::size_t kHashBytes = 8;               // this, too
constexpr std::size_t kDescriptorHeaderBytes = 20;  // the fuzzer adds this, too

class Seeds {
 public:
  explicit Seeds(std::string directory) : directory_(std::move(directory)) {}

  void Write(FuzzRecord kind, const std::string& bytes) {
    std::ofstream(directory_ + "/seed" + std::to_string(number_++), std::ios::binary)
        << static_cast<char>(kind) << bytes;
  }
  void WriteChecked(FuzzRecord kind, const std::string& record) {
    Write(kind, record.substr(0, record.size() - kCrcBytes));
  }

 private:
  std::string directory_;
  int number_ = 0;
};

void WriteFiles(Seeds* seeds) {
  Descriptor descriptor{{1, 2, 3}, TimeAt<WallTime>(1'000), {}};
  descriptor.schema.structures = {"metrics/+/cpu/#"};
  descriptor.schema.retention = {{"debug/#", 1h}};
  seeds->Write(FuzzRecord::kDescriptor,
               EncodeDescriptor(descriptor).substr(kDescriptorHeaderBytes));
  descriptor.schema.shard_by = ShardBy::kKey;
  seeds->Write(FuzzRecord::kDescriptor,
               EncodeDescriptor(descriptor).substr(kDescriptorHeaderBytes));
  const auto rules =
      RetentionRules::Make({{"debug/#", 5us, 7, 1us, 0}, {"state/+", 0us, 0, 0us, 3}}).value();
  seeds->WriteChecked(FuzzRecord::kRetention, EncodeRetention(rules));
  seeds->WriteChecked(FuzzRecord::kRetention, EncodeRetention(rules.With({{"a/#", 9us}}).value()));
  const auto with_layouts = RetentionRules::Make({{"a/#", 0us, 0, 0us, 0, LayoutKind::kColumnar},
                                                  {"b/#", 0us, 0, 0us, 0, LayoutKind::kSkipstream}})
                                .value();
  seeds->WriteChecked(FuzzRecord::kRetention, EncodeRetention(with_layouts));
}

void WriteTokens(Seeds* seeds) {
  const SlabId slab{1, RetentionClassId{2}, Generation{300}};
  seeds->WriteChecked(FuzzRecord::kStream, Stream{{4}, slab, StreamId{7}, "#", "m/+/cpu"}.Encode());
  Iterator iterator{{4}, slab, StreamId{7}, "m/+/cpu", {}, 5'000};
  seeds->WriteChecked(FuzzRecord::kIterator, iterator.Encode());
  iterator.position = {Position::Kind::kAfterMessage, 9, Serial{300}, 2, ""};
  seeds->WriteChecked(FuzzRecord::kIterator, iterator.Encode());
  iterator.position = {Position::Kind::kAfterKey, 0, kNoSerial, 0, "words"};
  seeds->WriteChecked(FuzzRecord::kIterator, iterator.Encode());
  iterator.seen = Serial{301};
  iterator.hidden = {{Serial{5}, Serial{6}}, {Serial{9}, Serial{9}}};
  iterator.structure = "m/+/cpu";
  seeds->WriteChecked(FuzzRecord::kIterator, iterator.Encode());
  ScanIterator scan{{4}, {"a/+", "b"}, 5, 99, {{0, Serial{7}, {}}, {3, Serial{300}, {}}},
                    2,   {},           {}};
  seeds->WriteChecked(FuzzRecord::kScanIterator, scan.Encode());
  scan.in_shard = 1;
  scan.shards[1].classes = {{RetentionClassId{1}, Generation{4}, Generation{6}, Serial{200}}};
  seeds->WriteChecked(FuzzRecord::kScanIterator, scan.Encode());
  scan.place = ScanPlace{0, StreamId{7}, iterator.position};
  seeds->WriteChecked(FuzzRecord::kScanIterator, scan.Encode());
}

void WriteRecords(Seeds* seeds) {
  seeds->Write(FuzzRecord::kIdentity, meta::Encode(meta::Identity{{1, 2}, 3}));
  seeds->Write(FuzzRecord::kCommitState, meta::Encode(meta::CommitState{Serial{5}, 6, Serial{7}}));
  meta::SlabRecord slab;
  seeds->Write(FuzzRecord::kSlab, meta::Encode(slab));
  slab.keep_last = 3;
  seeds->Write(FuzzRecord::kSlab, meta::Encode(slab));
  seeds->Write(FuzzRecord::kCounters, meta::Encode(meta::SlabCounters{1, 2, 3, 4}));
  meta::JobRecord job;
  job.last = {3, Serial{10}, Serial{12}, TimeAt<WallTime>(1'000), {0, 2}};
  job.earlier = {{2, Serial{8}, Serial{9}, TimeAt<WallTime>(900), {1}}};
  seeds->Write(FuzzRecord::kJob, meta::Encode(job));
  meta::DeleteRecord record;
  record.keys.filter = Filter::Parse("a/#").value();
  record.keys.range = {5, std::nullopt};
  seeds->Write(FuzzRecord::kDelete, meta::DeleteKey(Serial{7}, 1) + meta::Encode(record));
  std::string topics;
  meta::AppendSampleTopic(&topics, "a/b");
  meta::AppendSampleTopic(&topics, "c");
  seeds->Write(FuzzRecord::kSample, meta::EncodeSample(topics));
  seeds->Write(FuzzRecord::kSampleLevel, meta::EncodeSampleLevel(3));
}

void WriteEntries(Seeds* seeds) {
  seeds->Write(FuzzRecord::kApplied, meta::Encode(meta::Applied{1, 2, 3, 4}));
  replication::Entry entry;
  entry.epoch = 2;
  entry.number = 300;
  entry.previous_serial = Serial{4};
  entry.serial = Serial{5};
  entry.families = {{6, {RetentionClassId{1}, Generation{2}, replication::FamilyPart::kPages}}};
  entry.dropped = {entry.families[0].family};
  entry.body = "batch";
  entry.parts = 2;
  for (const auto kind : {replication::EntryKind::kLead, replication::EntryKind::kBatch,
                          replication::EntryKind::kPages, replication::EntryKind::kDrop,
                          replication::EntryKind::kPart}) {
    entry.kind = kind;
    const std::string bytes = replication::Encode(entry);
    seeds->Write(FuzzRecord::kEntry, bytes.substr(0, bytes.size() - kHashBytes));
  }
}

void WriteSnapshots(Seeds* seeds) {
  const replication::SnapshotManifest manifest{
      2, {10, 2, 2, 3}, Serial{7}, {{"000009.sst", 100, 5}, {"CURRENT", 16, 6}}};
  std::string bytes = replication::Encode(manifest);
  seeds->Write(FuzzRecord::kSnapshotManifest, bytes.substr(0, bytes.size() - kHashBytes));
  bytes = replication::Encode(replication::ChunkRequest{10, "000009.sst", 0, 100});
  seeds->Write(FuzzRecord::kChunkRequest, bytes.substr(0, bytes.size() - kHashBytes));
  bytes = replication::Encode(replication::SnapshotWish{300});
  seeds->Write(FuzzRecord::kSnapshotWish, bytes.substr(0, bytes.size() - kHashBytes));
}

void WriteDamage(Seeds* seeds) {
  std::string bytes = replication::Encode(
      replication::ReplicaDigest{{7, 1}, {{"default", 1, 2, 3}, {"x", 4, 5, 6}}});
  seeds->Write(FuzzRecord::kReplicaDigest, bytes.substr(0, bytes.size() - kHashBytes));
  bytes = replication::Encode(replication::DamageNote{"0002.copy-9", true, "a table is damaged"});
  seeds->Write(FuzzRecord::kDamageNote, bytes.substr(0, bytes.size() - kHashBytes));
}

void WriteCluster(Seeds* seeds) {
  replication::ClusterCommand command;
  command.founded.sites = {{"a", 1, "10.0.0.1:1", "grpc://a:1", SiteState::kMember, {}},
                           {"b", 3, "10.0.0.2:1", "", SiteState::kLeaving, {1, 2}}};
  command.founded.last_replica = 3;
  command.founded.descriptor = "descriptor";
  command.founded.retention = "retention";
  const auto write = [seeds](FuzzRecord kind, const std::string& bytes) {
    seeds->Write(kind, bytes.substr(0, bytes.size() - kHashBytes));
  };
  write(FuzzRecord::kClusterCommand, replication::Encode(command));
  write(FuzzRecord::kClusterSnapshot,
        replication::Encode(replication::ClusterSnapshot{300, command.founded}));
  command.kind = replication::ClusterCommandKind::kSetClients;
  command.site = "b";
  command.clients = "grpc://b:1";
  write(FuzzRecord::kClusterCommand, replication::Encode(command));
  write(FuzzRecord::kSiteIdentity,
        replication::Encode(replication::SiteIdentity{{1}, "a", 1, 77, true}));
  command.peers = "10.0.0.3:1";
  command.replica = 3;
  command.state = SiteState::kLeaving;
  replication::SiteCall call;
  call.name = "d";
  call.peers = "10.0.0.4:1";
  call.replica = 4;
  command.based_on = 77;
  command.retention = "retention";
  command.job.job = "load";
  command.job.sequence = "load";
  command.job.shards = {0, 300};
  for (std::uint8_t kind = 3; kind <= 10; ++kind) {
    command.kind = replication::ClusterCommandKind{kind};
    write(FuzzRecord::kClusterCommand, replication::Encode(command));
  }
  for (std::uint8_t kind = 1; kind <= 8; ++kind) {
    call.kind = replication::SiteCallKind{kind};
    write(FuzzRecord::kSiteCall, replication::Encode(call));
  }
  replication::SiteAnswer answer;
  answer.status = ClusterFault("no");
  answer.group = 77;
  answer.state = command.founded;
  write(FuzzRecord::kSiteAnswer, replication::Encode(answer));
  answer.format = 2;
  answer.digest = "bytes";
  answer.state.format = 2;
  answer.state.jobs = {command.job};
  write(FuzzRecord::kSiteAnswer, replication::Encode(answer));
  write(FuzzRecord::kClusterSnapshot,
        replication::Encode(replication::ClusterSnapshot{300, answer.state}));
}

void WriteStaged(Seeds* seeds) {
  seeds->Write(FuzzRecord::kStagedPart, Encode(StagedPartRecord{300, 5'000, 2, 1'000}));
  seeds->Write(FuzzRecord::kStagedFile,
               Encode(StagedFileRecord{{{1, RetentionClassId{2}, 300, 5'000}}}));
  seeds->Write(FuzzRecord::kStagedChoice, Encode(StagedChoice{7, {"x.staged", "y.staged"}}));
}

void WriteLeaderCalls(Seeds* seeds) {
  const auto write = [seeds](FuzzRecord kind, const std::string& bytes) {
    seeds->Write(kind, bytes.substr(0, bytes.size() - kHashBytes));
  };
  const MessageView messages[] = {{"a/b", 1, "value"}, {"c", kAssignTimestamp, "12345678"}};
  const AppendId id{"id", {1, 2}, 2};
  TransactionOps ops;
  ops.start_serial = Serial{5};
  ops.generation = Generation{1};
  ops.reads.push_back({Filter::Everything(), {1, 2}});
  ops.deletes.push_back({Filter::Parse("a/#").value(), {}});
  ops.requirements = {{"t", 1, "value", false}, {"u", 2, std::nullopt, true}};
  ops.is_serial = {false, true};
  ShardCommit append;
  append.messages = messages;
  append.id = &id;
  ShardCommit transaction;
  transaction.messages = messages;
  transaction.transaction = &ops;
  ShardCommit* const commits[] = {&append, &transaction};
  std::size_t count = 0;
  write(FuzzRecord::kLeaderCall, replication::EncodeCommits(commits, 1 << 20, &count));
  for (const auto kind :
       {replication::LeaderCallKind::kBegin, replication::LeaderCallKind::kFindAppend,
        replication::LeaderCallKind::kRotate, replication::LeaderCallKind::kDropSlab,
        replication::LeaderCallKind::kStored, replication::LeaderCallKind::kPart,
        replication::LeaderCallKind::kStage, replication::LeaderCallKind::kSealAll}) {
    replication::LeaderCall call;
    call.kind = kind;
    call.id = "id";
    call.stage.job = "load";
    call.stage.records = {{"rest", "value"}};
    write(FuzzRecord::kLeaderCall, replication::Encode(call));
  }
  replication::LeaderAnswer answer;
  answer.status = NotLeader("another one leads");
  answer.outcomes.resize(2);
  answer.outcomes[1].fault.conflicts.push_back({"a/#", {1, 2}, Serial{9}});
  answer.outcomes[1].fault.preconditions.push_back({"t", 3, "expected", std::nullopt, false});
  answer.known = KnownAppend{Serial{1}, 2, {3}};
  write(FuzzRecord::kLeaderAnswer, replication::Encode(answer));
}

// Writes the nodes of the trie of "a", "a/b", "a/+" and "#".
void WriteNodes(Seeds* seeds) {
  std::string nodes;
  for (const NodeRecord& node : {
           NodeRecord{1, kNoNode, NodeKind::kWord, false, ""},
           NodeRecord{2, 1, NodeKind::kWord, false, "a"},
           NodeRecord{3, 2, NodeKind::kEnd, false, ""},
           NodeRecord{4, 2, NodeKind::kWord, false, "b"},
           NodeRecord{5, 4, NodeKind::kEnd, false, ""},
           NodeRecord{6, 2, NodeKind::kPlus, true, ""},
           NodeRecord{7, 6, NodeKind::kEnd, false, ""},
           NodeRecord{8, 1, NodeKind::kAny, false, ""},
       }) {
    const std::string record = meta::Encode(node);
    nodes.push_back(static_cast<char>(record.size()));
    nodes += record;
  }
  seeds->Write(FuzzRecord::kNodes, nodes);
}

void WriteSkipstream(Seeds* seeds) {
  std::string suffix;
  skipstream::AppendTime(&suffix, 5, 8);
  const std::string_view words[] = {"a", "", "longer"};
  skipstream::AppendWords(&suffix, words);
  seeds->Write(FuzzRecord::kSuffix, suffix);
  std::string value;
  skipstream::AppendValueHeader(&value, Serial{300}, 2);
  seeds->Write(FuzzRecord::kValue, value + "value");
}

void WriteEnvelopes(Seeds* seeds) {
  Envelope envelope;
  envelope.payload = "payload";
  envelope.qos = 2;
  envelope.retain = true;
  envelope.client_id = "client";
  envelope.payload_format = 1;
  envelope.message_expiry_s = 300;
  envelope.content_type = "text/plain";
  envelope.response_topic = "re/1";
  envelope.correlation_data = "data";
  envelope.user_properties = {{"name", "value"}, {"name", ""}};
  envelope.subscription_ids = {1, 300};
  const std::string encoded = envelope.Encode();
  seeds->WriteChecked(FuzzRecord::kEnvelope, encoded);
  envelope.received_at = WallTime(1'700'000'000s);
  seeds->WriteChecked(FuzzRecord::kEnvelope, envelope.Encode());
  seeds->WriteChecked(FuzzRecord::kEnvelope, EscapedValue(encoded).value());
}

}  // namespace
}  // namespace topicdb

int main(int count, char** arguments) {
  using namespace topicdb;
  if (count != 2) return 2;
  Seeds seeds(arguments[1]);
  WriteFiles(&seeds);
  WriteTokens(&seeds);
  WriteRecords(&seeds);
  WriteEntries(&seeds);
  WriteSnapshots(&seeds);
  WriteDamage(&seeds);
  WriteCluster(&seeds);
  WriteLeaderCalls(&seeds);
  WriteStaged(&seeds);
  WriteNodes(&seeds);
  WriteSkipstream(&seeds);
  WriteEnvelopes(&seeds);
  return 0;
}
