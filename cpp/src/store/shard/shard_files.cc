// The files of a shard: what they take, and for copies of it.

#include <algorithm>
#include <chrono>
#include <string>

#include "store/shard/shard.h"

namespace topicdb {

Result<ShardFiles> Shard::FilesNow() TOPICDB_NO_THREAD_SAFETY_ANALYSIS {
  TOPICDB_RETURN_IF_ERROR(CheckWritable());
  if (unlogged_serial_ > 0) {  // the log does not have all
    TOPICDB_RETURN_IF_ERROR(FlushFamilies(*slabs_, /*wait=*/true));
    unlogged_serial_ = 0;
  }
  ShardFiles files;
  files.serial = state_.serial;
  TOPICDB_ASSIGN_OR_RETURN(files.hold, rocks::FilesHold::Take(db_.get()));
  auto listed = rocks::ListLiveFiles(db_.get());
  if (!listed.ok()) return listed.status().WithContext(Name());
  files.files = std::move(*listed);
  return files;
}

std::uint64_t Shard::DiskBytes() const {
  constexpr std::int64_t kMeasureEveryUs = 1'000'000;
  const std::int64_t now_us = std::chrono::duration_cast<std::chrono::microseconds>(
                                  std::chrono::steady_clock::now().time_since_epoch())
                                  .count();
  std::int64_t measured_at = disk_measured_at_us_.load();
  if ((measured_at == 0 || now_us - measured_at > kMeasureEveryUs) &&
      disk_measured_at_us_.compare_exchange_strong(measured_at, now_us)) {
    disk_written_bytes_ = 0;
    disk_measured_bytes_ = MeasureDiskBytes();
  }
  return disk_measured_bytes_ + disk_written_bytes_;
}

std::uint64_t Shard::MeasureDiskBytes() const {
  std::uint64_t bytes = DiskBytesOf(default_family_->get());
  const auto moment = view();
  for (const SlabView& slab : moment->slabs()) {
    for (rocksdb::ColumnFamilyHandle* const family : slab.slab->all_families()) {
      bytes += DiskBytesOf(family);
    }
  }
  return bytes;
}

// Of what is in memory, what it will take in files: what it takes there is at least a megabyte.
std::uint64_t Shard::DiskBytesOf(rocksdb::ColumnFamilyHandle* family) const {
  static const std::string kBehindAll(64, '\xff');
  std::uint64_t files = 0;
  std::uint64_t memory = 0;
  std::uint64_t entries = 0;
  std::uint64_t entry_bytes = 0;
  db_->GetIntProperty(family, "rocksdb.live-sst-files-size", &files);
  db_->GetIntProperty(family, "rocksdb.cur-size-all-mem-tables", &memory);
  db_->GetApproximateMemTableStats(family, rocksdb::Range({}, kBehindAll), &entries, &entry_bytes);
  return files + std::min(memory, entry_bytes);
}

}  // namespace topicdb
