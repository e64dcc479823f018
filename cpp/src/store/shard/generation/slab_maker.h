// Makes slabs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/shard/state/shard_state.h"

namespace topicdb {

// Makes the column families, the structures and the records of new slabs. A Shard owns it. Only the
// holder of the shard's commit mutex may call it.
class SlabMaker {
 public:
  explicit SlabMaker(ShardState& shard) : shard_(shard), stock_(shard.environment->resources) {}

  // Returns the families of these slabs. If it has to make any, it makes those of the `ahead`
  // generations that follow each in the same call.
  Result<FamiliesByName> MakeFamilies(const std::vector<SlabId>& slabs, std::size_t ahead = 0)
      TOPICDB_REQUIRES(shard_.mutex);
  // Takes the slab's families out of `families`, and adds its records to `batch`. It takes over
  // structures that vary from `previous` if that is not null.
  Result<std::shared_ptr<Slab>> Make(const SlabId& id, const meta::SlabRecord& record,
                                     const Slab* previous, FamiliesByName* families,
                                     rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(shard_.mutex);

  // Returns whether the generations of a class leave a number free behind them, for what is kept of
  // them.
  bool KeepsLast(RetentionClassId retention_class) const TOPICDB_REQUIRES(shard_.mutex);
  // Returns the distance from the number of a generation to that of the next one.
  std::uint32_t GenerationStep(RetentionClassId retention_class) const
      TOPICDB_REQUIRES(shard_.mutex);

  // Drops the families that were made ahead, and `unnamed`, which no record names.
  Status DropUnused(FamiliesByName unnamed = {}) TOPICDB_REQUIRES(shard_.mutex);
  // Gives back the handles of families that were made ahead. Opening the shard drops them.
  void Clear() TOPICDB_REQUIRES(shard_.mutex) { stock_.Clear(); }

 private:
  Status SeedStructures(bool reserved, const Slab* previous, StructureEdit* edit,
                        rocksdb::WriteBatch* batch);

  ShardState& shard_;
  FamilyStock stock_ TOPICDB_GUARDED_BY(shard_.mutex);
};

}  // namespace topicdb
