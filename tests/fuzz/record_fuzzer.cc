// A libFuzzer target for the files and records of a database beside its blocks, for what users keep
// of it (streams, iterators), and for keys and values of skipstream. Whatever the bytes are,
// decoding refuses them, or gives what is encoded to bytes that give the same. scripts/fuzz.sh runs
// it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "base/bytes/hash.h"
#include "layout/skipstream/skipstream_keys.h"
#include "record_input.h"
#include "replication/cluster/site_call.h"
#include "replication/cluster/site_identity.h"
#include "replication/digest/replica_digest.h"
#include "replication/entry.h"
#include "replication/entry_parts.h"
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

void Expect(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "record_fuzzer: %s\n", what);
  std::abort();
}

void CheckDescriptor(std::string_view body) {
  std::string bytes("TOPICDB\n", 8);
  AppendLittle<std::uint16_t>(&bytes, kFormatVersion);
  AppendLittle<std::uint16_t>(&bytes, 0);
  AppendLittle(&bytes, static_cast<std::uint32_t>(body.size()));
  AppendLittle(&bytes, Crc32(body, Crc32(bytes)));
  bytes += body;
  const auto descriptor = DecodeDescriptor(bytes, "fuzz");
  if (!descriptor.ok()) return;
  const Schema& schema = descriptor->schema;
  Expect(schema.shards >= 1 && schema.shards <= kShardsMax && !schema.thresholds.empty(),
         "a descriptor that no database can have");
  const std::string encoded = EncodeDescriptor(*descriptor);
  const auto again = DecodeDescriptor(encoded, "fuzz");
  Expect(again.ok() && EncodeDescriptor(*again) == encoded, "a descriptor changes");
}

void CheckRetention(const std::string& bytes) {
  const auto rules = DecodeRetention(bytes, "fuzz");
  if (!rules.ok()) return;
  Expect(!rules->live().empty(), "no class for a topic");
  for (const char* topic : {"a/b", "$SYS/x", "$topicdb/map/x/y"}) {
    const RetentionClassId number = rules->ClassOf(topic);
    Expect(number == rules->reserved() || rules->Find(number) != nullptr, "an unknown class");
  }
  const std::string encoded = EncodeRetention(*rules);
  const auto again = DecodeRetention(encoded, "fuzz");
  Expect(again.ok() && EncodeRetention(*again) == encoded, "rules of retention change");
}

template <typename Token>
void CheckToken(const std::string& bytes) {
  const auto token = Token::Decode(bytes);
  if (!token.ok()) return;
  const auto again = Token::Decode(token->Encode());
  Expect(again.ok() && *again == *token, "a stream or iterator changes");
}

template <typename Record>
void CheckRecord(std::string_view bytes) {
  Record record;
  if (!meta::Decode(bytes, &record)) return;
  const std::string encoded = meta::Encode(record);
  Record again;
  Expect(meta::Decode(encoded, &again) && meta::Encode(again) == encoded, "a record changes");
}

// The first bytes of the input are the key.
void CheckDelete(std::string_view bytes) {
  const std::size_t key_size = meta::DeleteKey(kNoSerial, 0).size();
  if (bytes.size() < key_size) return;
  meta::DeleteRecord record;
  if (!meta::Decode(bytes.substr(0, key_size), bytes.substr(key_size), &record)) return;
  const std::string key = meta::DeleteKey(record.serial, record.index);
  const std::string encoded = meta::Encode(record);
  meta::DeleteRecord again;
  Expect(meta::Decode(key, encoded, &again) && meta::Encode(again) == encoded, "a delete changes");
}

// Expects that every stream of a restored trie has a structure that fits it, and that searches find
// only streams.
void CheckTrie(const StructureTrie& trie) {
  trie.ForEachStream([&](StreamId stream) {
    Expect(trie.IsStream(stream) && stream.value() <= trie.last_node(), "a stream from nowhere");
    const Structure structure = trie.StructureOf(stream);
    Expect(structure.any || structure.VaryingCount() <= structure.levels.size(), "too many levels");
    // Nobody checks the words again, since RocksDB's checksum covers them.
    Expect(structure.any || !structure.Text().empty() || structure.levels.size() <= 1, "no text");
  });
  std::vector<std::string_view> varying;
  for (const char* topic : {"a", "a/b", "a/b/c", "$SYS/x", ""}) {
    const StreamId stream = trie.Find(topic, &varying);
    if (stream == kNoStream) continue;
    Expect(trie.IsStream(stream), "a topic in no stream");
    const Structure structure = trie.StructureOf(stream);
    Expect(structure.any || varying.size() == structure.VaryingCount(), "words of another stream");
  }
  for (const char* text : {"#", "+/b", "a/#"}) {
    trie.Match(Filter::Parse(text).value(),
               [&](StreamId stream) { Expect(trie.IsStream(stream), "a match in no stream"); });
  }
}

void CheckNodes(std::string_view bytes) {
  const SlabId slab{0, RetentionClassId{0}, Generation{1}};
  StructureTrie trie(Learning{{2, 1}, true, 100});
  Decoder decoder(bytes);
  NodeId id = kRootNode;
  for (; !decoder.Finished(); ++id) {
    const std::string_view record = decoder.Prefixed();
    NodeRecord node;
    if (!decoder.ok() || !meta::Decode(meta::NodeKey(slab, id), record, &node)) break;
    Expect(node.id == id, "a node with the id of another");
    NodeRecord again;
    Expect(meta::Decode(meta::NodeKey(slab, id), meta::Encode(node), &again) &&
               meta::Encode(again) == meta::Encode(node),
           "a node changes");
    if (!trie.Restore(node).ok()) break;
  }
  if (id > kRootNode) CheckTrie(trie);
}

void CheckSample(std::string_view bytes) {
  std::vector<std::string_view> topics;
  if (!meta::DecodeSample(bytes, &topics)) return;
  std::string encoded;
  for (const std::string_view topic : topics) meta::AppendSampleTopic(&encoded, topic);
  Expect(meta::EncodeSample(encoded) == bytes, "a sample changes");
}

void CheckSampleLevel(std::string_view bytes) {
  unsigned level = 0;
  if (!meta::DecodeSampleLevel(bytes, &level)) return;
  Expect(level < 64 && meta::EncodeSampleLevel(level) == bytes, "the level of a sample changes");
}

void CheckSuffix(std::string_view bytes) {
  for (const std::uint32_t width : {0U, 8U}) {
    skipstream::DecodedSuffix suffix;
    if (!skipstream::DecodeSuffix(bytes, width, &suffix)) continue;
    std::string encoded;
    skipstream::AppendTime(&encoded, suffix.timestamp, width);
    skipstream::AppendWords(&encoded, suffix.words);
    Expect(encoded == bytes, "a suffix changes");
  }
}

void CheckValue(std::string_view bytes) {
  skipstream::DecodedValue value;
  if (!skipstream::DecodeValue(bytes, &value)) return;
  std::string encoded;
  skipstream::AppendValueHeader(&encoded, value.serial, value.index);
  encoded += value.value;
  skipstream::DecodedValue again;
  Expect(skipstream::DecodeValue(encoded, &again) && again.serial == value.serial &&
             again.index == value.index && again.value == value.value,
         "a value changes");
}

// Expects that any value can be stored so that readers see it.
void CheckEnvelope(const std::string& value) {
  const std::string stored = EscapedValue(value).value_or(value);
  Expect(PayloadOf(stored) == value, "a value changes");
  Envelope envelope;
  if (!envelope.Decode(value)) {
    Expect(stored == value && PayloadOf(value) == value, "a value is taken for an envelope");
    return;
  }
  Expect(PayloadOf(value) == envelope.payload, "another payload");
  const std::string encoded = envelope.Encode();
  Envelope again;
  Expect(again.Decode(encoded) && again == envelope && again.Encode() == encoded,
         "an envelope changes");
}

void CheckEntry(std::string bytes) {
  AppendLittle<std::uint64_t>(&bytes, Hash64(bytes));
  const auto entry = replication::DecodeEntry(bytes);
  if (!entry.ok()) return;
  const std::string encoded = replication::Encode(*entry);
  const auto again = replication::DecodeEntry(encoded);
  Expect(again.ok() && replication::Encode(*again) == encoded, "an entry changes");
  replication::PartJoiner parts;
  const auto whole = parts.Add(bytes);
  Expect(whole.ok(), "an entry is no part of one");
}

// Expects that what is decoded is encoded as it was.
template <typename Record, typename Decode>
void CheckHashed(std::string bytes, Decode decode) {
  AppendLittle<std::uint64_t>(&bytes, Hash64(bytes));
  const Result<Record> decoded = decode(bytes);
  if (!decoded.ok()) return;
  const Result<Record> again = decode(replication::Encode(*decoded));
  Expect(again.ok() && *again == *decoded, "a message between sites changes");
}

// Expects that a note of damage names a file beside the shard, and stays as it is.
void CheckDamageNote(std::string bytes) {
  AppendLittle<std::uint64_t>(&bytes, Hash64(bytes));
  const auto note = replication::DecodeDamageNote(bytes);
  if (!note.ok()) return;
  Expect(!note->copy.empty() && note->copy.find('/') == std::string::npos,
         "a note of damage leads elsewhere");
  const std::string encoded = replication::Encode(*note);
  const auto again = replication::DecodeDamageNote(encoded);
  Expect(again.ok() && replication::Encode(*again) == encoded, "a note of damage changes");
}

// Expects that all texts of a call are in its bytes.
void CheckLeaderCall(std::string bytes) {
  AppendLittle<std::uint64_t>(&bytes, Hash64(bytes));
  const auto call = replication::DecodeLeaderCall(bytes);
  if (!call.ok()) return;
  for (const replication::SentCommit& commit : call->commits) {
    std::uint64_t size = 0;
    for (const MessageView& message : commit.messages) {
      size += message.topic.size() + message.value.size();
    }
    Expect(size <= bytes.size(), "a call has more than its bytes");
    if (!commit.transaction.has_value() || commit.transaction->is_serial.empty()) continue;
    Expect(commit.transaction->is_serial.size() == commit.messages.size(),
           "a call marks other messages than it has");
  }
}

// Expects that what is decoded, and encoded again, stays as it is.
void CheckLeaderAnswer(std::string bytes) {
  AppendLittle<std::uint64_t>(&bytes, Hash64(bytes));
  const auto answer = replication::DecodeLeaderAnswer(bytes);
  if (!answer.ok()) return;
  const std::string encoded = replication::Encode(*answer);
  const auto again = replication::DecodeLeaderAnswer(encoded);
  Expect(again.ok() && replication::Encode(*again) == encoded, "an answer changes");
}

// Expects that what is decoded, and encoded again, stays as it is.
void CheckSiteAnswer(std::string bytes) {
  AppendLittle<std::uint64_t>(&bytes, Hash64(bytes));
  const auto answer = replication::DecodeSiteAnswer(bytes);
  if (!answer.ok()) return;
  const std::string encoded = replication::Encode(*answer);
  const auto again = replication::DecodeSiteAnswer(encoded);
  Expect(again.ok() && replication::Encode(*again) == encoded, "an answer of a site changes");
}

// Expects that what is decoded, and encoded again, stays as it is.
template <typename Record>
void CheckStaged(std::string_view bytes) {
  Record record;
  if (!Decode(bytes, &record)) return;
  const std::string encoded = Encode(record);
  Record again;
  Expect(Decode(encoded, &again) && Encode(again) == encoded, "a staged record changes");
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const auto kind = static_cast<FuzzRecord>(static_cast<std::uint8_t>(input[0]) % kFuzzRecords);
  input.remove_prefix(1);
  switch (kind) {
    case FuzzRecord::kDescriptor:
      return CheckDescriptor(input);
    case FuzzRecord::kRetention:
      return CheckRetention(CloseRecord(std::string(input)));
    case FuzzRecord::kStream:
      return CheckToken<Stream>(CloseRecord(std::string(input)));
    case FuzzRecord::kIterator:
      return CheckToken<Iterator>(CloseRecord(std::string(input)));
    case FuzzRecord::kScanIterator:
      return CheckToken<ScanIterator>(CloseRecord(std::string(input)));
    case FuzzRecord::kIdentity:
      return CheckRecord<meta::Identity>(input);
    case FuzzRecord::kCommitState:
      return CheckRecord<meta::CommitState>(input);
    case FuzzRecord::kSlab:
      return CheckRecord<meta::SlabRecord>(input);
    case FuzzRecord::kCounters:
      return CheckRecord<meta::SlabCounters>(input);
    case FuzzRecord::kJob:
      return CheckRecord<meta::JobRecord>(input);
    case FuzzRecord::kNodes:
      return CheckNodes(input);
    case FuzzRecord::kDelete:
      return CheckDelete(input);
    case FuzzRecord::kSample:
      return CheckSample(input);
    case FuzzRecord::kSampleLevel:
      return CheckSampleLevel(input);
    case FuzzRecord::kSuffix:
      return CheckSuffix(input);
    case FuzzRecord::kValue:
      return CheckValue(input);
    case FuzzRecord::kEnvelope:
      return CheckEnvelope(CloseRecord(std::string(input)));
    case FuzzRecord::kApplied:
      return CheckRecord<meta::Applied>(input);
    case FuzzRecord::kEntry:
      return CheckEntry(std::string(input));
    case FuzzRecord::kSnapshotManifest:
      return CheckHashed<replication::SnapshotManifest>(std::string(input),
                                                        replication::DecodeManifest);
    case FuzzRecord::kChunkRequest:
      return CheckHashed<replication::ChunkRequest>(std::string(input),
                                                    replication::DecodeChunkRequest);
    case FuzzRecord::kClusterCommand:
      return CheckHashed<replication::ClusterCommand>(std::string(input),
                                                      replication::DecodeClusterCommand);
    case FuzzRecord::kClusterSnapshot:
      return CheckHashed<replication::ClusterSnapshot>(std::string(input),
                                                       replication::DecodeClusterSnapshot);
    case FuzzRecord::kSiteIdentity:
      return CheckHashed<replication::SiteIdentity>(std::string(input),
                                                    replication::DecodeSiteIdentity);
    case FuzzRecord::kLeaderCall:
      return CheckLeaderCall(std::string(input));
    case FuzzRecord::kLeaderAnswer:
      return CheckLeaderAnswer(std::string(input));
    case FuzzRecord::kSiteCall:
      return CheckHashed<replication::SiteCall>(std::string(input), replication::DecodeSiteCall);
    case FuzzRecord::kSiteAnswer:
      return CheckSiteAnswer(std::string(input));
    case FuzzRecord::kStagedPart:
      return CheckStaged<StagedPartRecord>(input);
    case FuzzRecord::kStagedFile:
      return CheckStaged<StagedFileRecord>(input);
    case FuzzRecord::kStagedChoice:
      return CheckStaged<StagedChoice>(input);
    case FuzzRecord::kSnapshotWish:
      return CheckHashed<replication::SnapshotWish>(std::string(input),
                                                    replication::DecodeSnapshotWish);
    case FuzzRecord::kReplicaDigest:
      return CheckHashed<replication::ReplicaDigest>(std::string(input),
                                                     replication::DecodeReplicaDigest);
    case FuzzRecord::kDamageNote:
      return CheckDamageNote(std::string(input));
  }
}

}  // namespace
}  // namespace topicdb

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  topicdb::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
