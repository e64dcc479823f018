// From "everything that matches" to the stored messages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/shard/state/shard_state.h"

namespace topicdb {

// Adds the removals of what matches to a batch. Its owner makes it, uses it and destroys it under
// the shard's commit mutex, so what it reads is what is committed.
class DeleteExpander {
 public:
  // removed_max: messages that go into the batch at most.
  DeleteExpander(const ShardState& shard, rocksdb::WriteBatch* batch, std::size_t removed_max)
      : shard_(shard), batch_(batch), removed_max_(removed_max) {}

  // Adds removals of what the record names, index entries included; false if some remain because
  // the batch is full, which it never is for a single message (IsPoint). `masked`: what an
  // unfinished delete hides is not looked at.
  Result<bool> Remove(const meta::DeleteRecord& record, bool masked) TOPICDB_REQUIRES(shard_.mutex);
  // The same of one slab only, whether the shard has it already or not.
  Result<bool> RemoveFrom(const Slab& slab, const meta::DeleteRecord& record,
                          const std::vector<RowMask>& masks) TOPICDB_REQUIRES(shard_.mutex);
  // Adds what is left to the batch.
  Status Finish();

  std::size_t removed() const { return removed_; }

 private:
  Status RemovePoint(const Slab& slab, const meta::DeleteRecord& record,
                     const std::vector<RowMask>& masks) TOPICDB_REQUIRES(shard_.mutex);
  SlabRemover& RemoverOf(const Slab& slab);

  const ShardState& shard_;
  rocksdb::WriteBatch* const batch_;
  const std::size_t removed_max_;
  std::size_t removed_ = 0;
  std::map<SlabId, std::unique_ptr<SlabRemover>> removers_;
};

}  // namespace topicdb
