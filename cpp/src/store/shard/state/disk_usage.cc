#include "store/shard/state/disk_usage.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace topicdb {

std::uint64_t DiskUsage::Bytes() const {
  constexpr std::int64_t kMeasureEveryUs = 1'000'000;
  const std::int64_t now_us = std::chrono::duration_cast<std::chrono::microseconds>(
                                  std::chrono::steady_clock::now().time_since_epoch())
                                  .count();
  std::int64_t measured_at = measured_at_us_.load();
  if ((measured_at == 0 || now_us - measured_at > kMeasureEveryUs) &&
      measured_at_us_.compare_exchange_strong(measured_at, now_us)) {
    written_bytes_ = 0;
    measured_bytes_ = Measure();
  }
  return measured_bytes_ + written_bytes_;
}

std::uint64_t DiskUsage::Measure() const {
  std::uint64_t bytes = OfFamily(shard_.default_family->get());
  const auto moment = shard_.view();
  for (const SlabView& slab : moment->slabs()) {
    for (rocksdb::ColumnFamilyHandle* const family : slab.slab->all_families()) {
      bytes += OfFamily(family);
    }
  }
  return bytes;
}

// For messages in memory, this counts the bytes that they will take in files. The memory itself is
// at least a megabyte for each family.
std::uint64_t DiskUsage::OfFamily(rocksdb::ColumnFamilyHandle* family) const {
  static const std::string kBehindAll(64, '\xff');
  std::uint64_t files = 0;
  std::uint64_t memory = 0;
  std::uint64_t entries = 0;
  std::uint64_t entry_bytes = 0;
  shard_.db->GetIntProperty(family, "rocksdb.live-sst-files-size", &files);
  shard_.db->GetIntProperty(family, "rocksdb.cur-size-all-mem-tables", &memory);
  shard_.db->GetApproximateMemTableStats(family, rocksdb::Range({}, kBehindAll), &entries,
                                         &entry_bytes);
  return files + std::min(memory, entry_bytes);
}

}  // namespace topicdb
