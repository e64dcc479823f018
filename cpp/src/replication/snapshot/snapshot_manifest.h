// Says what a snapshot of a replica has. Only this file and snapshot_manifest.cc know the bytes,
// which docs/internals/format.md draws.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/catalog/meta.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb::replication {

// Files are read and hashed in chunks of this size. DO NOT CHANGE: hashes depend on it.
inline constexpr std::size_t kSnapshotChunkBytes = std::size_t{1} << 20;

// A file of a snapshot.
struct SnapshotFile {
  std::string name;  // in the directory of the shard
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  // see HashChunk
  bool operator==(const SnapshotFile&) const = default;
};

// The RocksDB of a shard as it was after some entry. The consensus hands it from one replica to
// another, which then fetches the files.
struct SnapshotManifest {
  std::uint64_t replica = 0;  // that has the files
  meta::Applied applied;      // the note of the last entry in it
  Serial serial;              // the last commit in it
  std::vector<SnapshotFile> files;
  bool operator==(const SnapshotManifest&) const = default;
};

std::string Encode(const SnapshotManifest& manifest);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a manifest of a later
// version of TopicDB. No name of a file leads out of a directory.
Result<SnapshotManifest> DecodeManifest(std::string_view bytes);

// Returns the hash of a file up to a chunk. `before` is that up to the chunk before, or 0.
std::uint64_t HashChunk(std::string_view chunk, std::uint64_t before);

// A question for a part of a file of a snapshot. The answer is the bytes.
struct ChunkRequest {
  std::uint64_t index = 0;  // of the last entry in the snapshot
  std::string name;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;  // at most kSnapshotChunkBytes
  bool operator==(const ChunkRequest&) const = default;
};

std::string Encode(const ChunkRequest& request);
// Returns kCorruption for bytes that Encode has not made, and kSchema for a later version.
Result<ChunkRequest> DecodeChunkRequest(std::string_view bytes);

// A question for a snapshot that has at least the entry at this index. The answer is its manifest.
struct SnapshotWish {
  std::uint64_t least = 0;
  bool operator==(const SnapshotWish&) const = default;
};

std::string Encode(const SnapshotWish& wish);
// Returns whether bytes are those of a wish, and not those of another request.
bool IsSnapshotWish(std::string_view bytes);
// Returns kCorruption for bytes that Encode has not made.
Result<SnapshotWish> DecodeSnapshotWish(std::string_view bytes);

}  // namespace topicdb::replication
