#include "replication/digest/family_digest.h"

#include <memory>
#include <string>
#include <string_view>

#include "base/bytes/hash.h"
#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"

namespace topicdb::replication {

namespace {

constexpr std::uint64_t kKeysBetweenQuestions = 1'000;
constexpr std::size_t kReadAheadBytes = std::size_t{2} << 20;

}  // namespace

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
