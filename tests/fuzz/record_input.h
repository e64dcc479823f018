// The first byte of an input of record_fuzzer chooses what the rest is.
#pragma once

#include <cstdint>

namespace topicdb {

enum class FuzzRecord : std::uint8_t {
  kDescriptor,  // its fields; the fuzzer adds header and checksum
  kRetention,   // a record; the fuzzer adds its checksum, here and in the next two
  kStream,
  kIterator,
  kIdentity,  // a record of a shard as it is, here and below
  kCommitState,
  kSlab,
  kCounters,
  kJob,
  kNodes,  // nodes of one trie, each with its length before it
  kDelete,
  kSample,
  kSampleLevel,
  kSuffix,    // of a skipstream key
  kValue,     // of a skipstream message
  kEnvelope,  // a value with properties; the fuzzer adds its checksum, here and in the next
  kScanIterator,
  kApplied,
  kEntry,  // of a replicated log; the fuzzer adds its hash, here and below
  kSnapshotManifest,
  kChunkRequest,
  kClusterCommand,
  kClusterSnapshot,
  kSiteIdentity,
  kLeaderCall,
  kLeaderAnswer,
  kSiteCall,
  kSiteAnswer,
  kStagedPart,  // a record of a shard as it is, here and in the next two
  kStagedFile,
  kStagedChoice,
  kSnapshotWish,  // the fuzzer adds its hash, here and below
  kReplicaDigest,
  kDamageNote,
};
inline constexpr std::uint8_t kFuzzRecords = 34;

}  // namespace topicdb
