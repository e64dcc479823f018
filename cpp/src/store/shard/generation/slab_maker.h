// Makes slabs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/shard/state/shard_state.h"

namespace topicdb {

// A slab that is to be made.
struct NewSlab {
  SlabId id;
  LayoutKind layout;
};

// Makes the column families, the structures and the records of new slabs. A Shard owns it. Only the
// holder of the shard's commit mutex may call it.
class SlabMaker {
 public:
  explicit SlabMaker(ShardState& shard) : shard_(shard), stock_(shard.environment->resources) {}

  // Returns the families of these slabs. If it must make any, it makes those of the `ahead`
  // generations that follow each slab in the same call, as if they had the layout of the slab. A
  // failure poisons the shard.
  Result<FamiliesByName> MakeFamilies(const std::vector<NewSlab>& slabs, std::size_t ahead = 0)
      TOPICDB_REQUIRES(shard_.mutex);
  // Returns a new slab. Moves its families out of `families`, and adds its records to `batch`. The
  // slab begins with the hints of the schema. If `previous` is not null, it also begins with the
  // structures of that slab: learned anew from the sample of its topics, or those with wildcards
  // that it had.
  Result<std::shared_ptr<Slab>> Make(const SlabId& id, const meta::SlabRecord& record,
                                     const Slab* previous, FamiliesByName* families,
                                     rocksdb::WriteBatch* batch) TOPICDB_REQUIRES(shard_.mutex);

  // Returns whether a class has keep_last. Its generations then leave a number free after each of
  // them, for the slab with the messages that are kept.
  bool KeepsLast(RetentionClassId retention_class) const TOPICDB_REQUIRES(shard_.mutex);
  // Returns by how much the number of a generation of the class is less than that of the next one.
  std::uint32_t GenerationStep(RetentionClassId retention_class) const
      TOPICDB_REQUIRES(shard_.mutex);

  // Drops the families that were made ahead, and `unnamed`, which no record names.
  Status DropUnused(FamiliesByName unnamed = {}) TOPICDB_REQUIRES(shard_.mutex);
  // Hands out the families that were made ahead.
  FamiliesByName TakeSpare() TOPICDB_REQUIRES(shard_.mutex) { return stock_.TakeAll(); }
  // Gives back the handles of families that were made ahead. The next opening drops these.
  void Clear() TOPICDB_REQUIRES(shard_.mutex) { stock_.Clear(); }

 private:
  // Adds the structures with which a slab begins to `edit`. Removes the sample of `previous`.
  Status SeedStructures(bool reserved, const Slab* previous, StructureEdit* edit,
                        rocksdb::WriteBatch* batch);

  ShardState& shard_;
  FamilyStock stock_ TOPICDB_GUARDED_BY(shard_.mutex);
};

}  // namespace topicdb
