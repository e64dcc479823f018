#include "store/shard/state/disk_usage.h"

#include <algorithm>
#include <string>

namespace topicdb {

std::uint64_t DiskUsage::Bytes() const {
  constexpr std::chrono::seconds kMeasureEvery(1);
  const Clock::time_point now = Clock::now();
  Clock::time_point measured_at = measured_at_.load();
  if ((measured_at == Clock::time_point() || now - measured_at > kMeasureEvery) &&
      measured_at_.compare_exchange_strong(measured_at, now)) {
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
