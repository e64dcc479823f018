#include "replication/snapshot/snapshot_manifest.h"

#include <algorithm>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"
#include "replication/hashed_bytes.h"

namespace topicdb::replication {

namespace {

constexpr std::uint8_t kManifestVersion = 1;
// Other requests between replicas have other first bytes.
constexpr std::uint8_t kChunkRequest = 1;
constexpr std::uint8_t kSnapshotWish = 3;

// A name from another machine must not lead anywhere else.
bool IsFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace

std::string Encode(const SnapshotManifest& manifest) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kManifestVersion));
  AppendLittle<std::uint64_t>(&bytes, manifest.replica);
  AppendLittle<std::uint64_t>(&bytes, manifest.applied.index);
  AppendLittle<std::uint64_t>(&bytes, manifest.applied.term);
  AppendLittle<std::uint64_t>(&bytes, manifest.applied.epoch);
  AppendLittle<std::uint64_t>(&bytes, manifest.applied.number);
  AppendLittle<std::uint64_t>(&bytes, manifest.serial.value());
  AppendVarint(&bytes, manifest.files.size());
  for (const SnapshotFile& file : manifest.files) {
    AppendPrefixed(&bytes, file.name);
    AppendLittle<std::uint64_t>(&bytes, file.bytes);
    AppendLittle<std::uint64_t>(&bytes, file.hash);
  }
  AppendHash(&bytes);
  return bytes;
}

Result<SnapshotManifest> DecodeManifest(std::string_view bytes) {
  const std::string what = "the manifest of a snapshot";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kManifestVersion));
  SnapshotManifest manifest;
  manifest.replica = decoder.Little<std::uint64_t>();
  manifest.applied.index = decoder.Little<std::uint64_t>();
  manifest.applied.term = decoder.Little<std::uint64_t>();
  manifest.applied.epoch = decoder.Little<std::uint64_t>();
  manifest.applied.number = decoder.Little<std::uint64_t>();
  manifest.serial = Serial{decoder.Little<std::uint64_t>()};
  // A count that is too large ends at the first file that is not there.
  const std::uint64_t count = decoder.Varint();
  for (std::uint64_t i = 0; i < count && decoder.ok(); ++i) {
    SnapshotFile file;
    file.name = decoder.Prefixed();
    file.bytes = decoder.Little<std::uint64_t>();
    file.hash = decoder.Little<std::uint64_t>();
    if (!IsFileName(file.name)) return Corruption(what + " is damaged");
    manifest.files.push_back(std::move(file));
  }
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return manifest;
}

std::uint64_t HashChunk(std::string_view chunk, std::uint64_t before) {
  return Hash64(chunk, before);
}

std::string Encode(const ChunkRequest& request) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kChunkRequest));
  AppendLittle<std::uint64_t>(&bytes, request.index);
  AppendPrefixed(&bytes, request.name);
  AppendLittle<std::uint64_t>(&bytes, request.offset);
  AppendLittle<std::uint32_t>(&bytes, request.bytes);
  AppendHash(&bytes);
  return bytes;
}

Result<ChunkRequest> DecodeChunkRequest(std::string_view bytes) {
  const std::string what = "a request for a part of a snapshot";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kChunkRequest));
  ChunkRequest request;
  request.index = decoder.Little<std::uint64_t>();
  request.name = decoder.Prefixed();
  request.offset = decoder.Little<std::uint64_t>();
  request.bytes = decoder.Little<std::uint32_t>();
  if (!decoder.Finished() || !IsFileName(request.name) || request.bytes > kSnapshotChunkBytes) {
    return Corruption(what + " is damaged");
  }
  return request;
}

std::string Encode(const SnapshotWish& wish) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kSnapshotWish));
  AppendLittle<std::uint64_t>(&bytes, wish.least);
  AppendHash(&bytes);
  return bytes;
}

bool IsSnapshotWish(std::string_view bytes) {
  return !bytes.empty() && bytes.front() == static_cast<char>(kSnapshotWish);
}

Result<SnapshotWish> DecodeSnapshotWish(std::string_view bytes) {
  const std::string what = "a request for a snapshot";
  if (!IsSnapshotWish(bytes)) return Corruption(what + " is damaged");
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kSnapshotWish));
  SnapshotWish wish;
  wish.least = decoder.Little<std::uint64_t>();
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return wish;
}

}  // namespace topicdb::replication
