// What a replica has after an entry of the log, in short: two replicas compare by it. Only this
// file and replica_digest.cc know the bytes, which docs/internals/format.md draws.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "replication/replicated_log.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// What a column family has. DO NOT CHANGE how `hash` is made: sites of two versions compare it.
struct FamilyDigest {
  std::string family;  // its name in RocksDB
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;  // of keys and values
  std::uint64_t hash = 0;   // of keys and values in their order
  bool operator==(const FamilyDigest&) const = default;
};

// A value.
struct ReplicaDigest {
  LogPlace place;                      // of the entry
  std::vector<FamilyDigest> families;  // by name; those that are empty are left out
  bool operator==(const ReplicaDigest&) const = default;
};

std::string Encode(const ReplicaDigest& digest);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a later version.
Result<ReplicaDigest> DecodeReplicaDigest(std::string_view bytes);

}  // namespace topicdb::replication
