// What the first byte of an input of record_fuzzer chooses.
#pragma once

#include <cstdint>

namespace topicdb {

enum class FuzzRecord : std::uint8_t {
  kDescriptor,  // the fields; header and checksum are made right
  kRetention,   // a record whose checksum is made right, here and in the next two
  kStream,
  kIterator,
  kIdentity,  // a record of a shard as it is, here and below
  kCommitState,
  kSlab,
  kCounters,
  kJob,
  kNodes,  // each node with its length before it: the trie of them, and a topic in it
  kDelete,
  kSample,
  kSampleLevel,
  kSuffix,    // of a skipstream key
  kValue,     // of a skipstream message
  kEnvelope,  // a value with properties, whose checksum is made right
};
inline constexpr std::uint8_t kFuzzRecords = 16;

}  // namespace topicdb
