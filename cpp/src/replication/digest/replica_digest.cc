#include "replication/digest/replica_digest.h"

#include "base/bytes/coding.h"
#include "replication/hashed_bytes.h"

namespace topicdb::replication {

namespace {

constexpr std::uint8_t kVersion = 1;

}  // namespace

std::string Encode(const ReplicaDigest& digest) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kVersion));
  AppendLittle<std::uint64_t>(&bytes, digest.place.index);
  AppendLittle<std::uint64_t>(&bytes, digest.place.term);
  AppendVarint(&bytes, digest.families.size());
  for (const FamilyDigest& family : digest.families) {
    AppendPrefixed(&bytes, family.family);
    AppendLittle<std::uint64_t>(&bytes, family.keys);
    AppendLittle<std::uint64_t>(&bytes, family.bytes);
    AppendLittle<std::uint64_t>(&bytes, family.hash);
  }
  AppendHash(&bytes);
  return bytes;
}

Result<ReplicaDigest> DecodeReplicaDigest(std::string_view bytes) {
  const std::string what = "the digest of a replica";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kVersion));
  ReplicaDigest digest;
  digest.place.index = decoder.Little<std::uint64_t>();
  digest.place.term = decoder.Little<std::uint64_t>();
  // A count that is too large ends at the first family that is not there.
  const std::uint64_t count = decoder.Varint();
  for (std::uint64_t i = 0; i < count && decoder.ok(); ++i) {
    FamilyDigest family;
    family.family = decoder.Prefixed();
    family.keys = decoder.Little<std::uint64_t>();
    family.bytes = decoder.Little<std::uint64_t>();
    family.hash = decoder.Little<std::uint64_t>();
    digest.families.push_back(std::move(family));
  }
  if (!decoder.Finished()) return Corruption(what + " is damaged");
  return digest;
}

}  // namespace topicdb::replication
