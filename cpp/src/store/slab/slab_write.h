// Writes all messages of a slab that is made of what other slabs had. Nobody reads it yet.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "layout/slab_salvage.h"
#include "rocks/log/shard_log.h"
#include "store/slab/slab.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Writes one slab, whose messages keep their serials. The log gets only the results of sealing, so
// the caller must flush the slab's families before anybody can see the slab. Whoever makes a slab
// this way makes it and destroys it; the arguments must outlive it. Not thread-safe.
class SlabWrite {
 public:
  SlabWrite(rocksdb::DB* db, rocks::ShardLog* log, const SealLimits& limits, Slab* slab);

  // Adds a message. Learns the structure of its topic if the slab does not have it. If the slab has
  // a log, messages should come in the order of commits: one that comes too late begins a block.
  // Returns kStorage.
  Status Take(const SalvagedRow& row);
  // Writes the remaining messages and seals them. With `read_only`, compresses as much as possible.
  // Returns kStorage.
  Status Finish(bool read_only);

  // Adds the records of the learned structures and of the counters to `batch`.
  rocksdb::Status PutRecords(rocksdb::WriteBatch* batch) const;
  // Returns the greatest serial of the messages, or kNoSerial if there are none.
  Serial serial_max() const { return serial_max_; }

 private:
  // The messages of one write.
  struct Batch {
    explicit Batch(const Slab& slab);
    rocksdb::WriteBatch messages;
    StructureEdit edit;
    std::unique_ptr<SlabWriter> writer;
    std::size_t rows = 0;
    std::size_t bytes = 0;
  };

  // Writes batch_ if there is one. Then seals if there are enough fresh bytes.
  Status Write();
  // Takes all steps of sealing that there are in this scope.
  Status Seal(SealScope scope);

  rocksdb::DB* const db_;
  rocks::ShardLog* const log_;
  const SealLimits limits_;
  Slab* const slab_;
  meta::SlabCounters counters_;
  Serial serial_max_;
  Serial last_;  // of the last message
  std::unique_ptr<Batch> batch_;
  std::vector<NodeRecord> nodes_;
  std::vector<std::string_view> varying_;
};

}  // namespace topicdb
