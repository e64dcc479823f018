// Writing all messages of a slab that nobody reads yet: one that is made of what others had.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "layout/slab_salvage.h"
#include "rocks/log/log_check.h"
#include "store/slab/slab.h"

namespace topicdb {

// Messages keep their serials. What is written is not in the log, but for sealing: flush the slab's
// families before anybody hears of it. Not thread-safe.
class SlabWrite {
 public:
  SlabWrite(rocksdb::DB* db, rocks::LogChain* log, const SealLimits& limits, Slab* slab);

  // Learns the topic's structure if need be. kStorage.
  Status Take(const SalvagedRow& row);
  // Writes what is left and seals it; read_only: as tightly as can be. kStorage.
  Status Finish(bool read_only);

  // What belongs to the slab's record: the structures that were learned, and counters.
  rocksdb::Status PutRecords(rocksdb::WriteBatch* batch) const;
  std::uint64_t serial_max() const { return serial_max_; }

 private:
  struct Batch {
    explicit Batch(const Slab& slab);
    rocksdb::WriteBatch messages;
    StructureEdit edit;
    std::unique_ptr<SlabWriter> writer;
    std::size_t rows = 0;
    std::size_t bytes = 0;
  };

  Status Write();
  Status Seal(SealScope scope);

  rocksdb::DB* const db_;
  rocks::LogChain* const log_;
  const SealLimits limits_;
  Slab* const slab_;
  meta::SlabCounters counters_;
  std::uint64_t serial_max_ = 0;
  std::unique_ptr<Batch> batch_;
  std::vector<NodeRecord> nodes_;
  std::vector<std::string_view> varying_;
};

}  // namespace topicdb
