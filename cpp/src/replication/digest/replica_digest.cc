#include "replication/digest/replica_digest.h"

#include <memory>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"
#include "replication/hashed_bytes.h"
#include "store/catalog/meta.h"

namespace topicdb::replication {

namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint64_t kKeysBetweenQuestions = 1'000;
constexpr std::size_t kReadAheadBytes = std::size_t{2} << 20;

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

Result<FamilyDigest> DigestFamily(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family,
                                  const rocksdb::Snapshot* snapshot,
                                  const std::function<bool()>& stops) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  options.fill_cache = false;
  options.total_order_seek = true;
  options.readahead_size = kReadAheadBytes;
  FamilyDigest digest;
  digest.family = family->GetName();
  const bool is_default = digest.family == rocksdb::kDefaultColumnFamilyName;
  const std::string note = meta::AppliedKey();
  const std::unique_ptr<rocksdb::Iterator> rows(db->NewIterator(options, family));
  for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
    const std::string_view key = rows->key().ToStringView();
    const std::string_view value = rows->value().ToStringView();
    if (is_default && key == note) continue;
    digest.hash = Hash64(value, Hash64(key, digest.hash + 1) + 1);
    digest.bytes += key.size() + value.size();
    if (++digest.keys % kKeysBetweenQuestions == 0 && stops()) return Interrupted();
  }
  TOPICDB_RETURN_IF_ERROR(
      rocks::FromRocks(rows->status(), "reading the column family " + digest.family));
  return digest;
}

}  // namespace topicdb::replication
