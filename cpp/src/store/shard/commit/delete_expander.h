// Finds the stored messages that a delete matches, and removes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/shard/state/shard_state.h"

namespace topicdb {

// Adds the removals of messages that deletes match to a batch. Whoever needs one makes it, uses it
// and destroys it under the shard's commit mutex, so it reads exactly what is committed. The batch
// must outlive it.
class DeleteExpander {
 public:
  // What a commit, or a step of a large delete, examines of one delete: it takes a tenth of a
  // second.
  static constexpr std::size_t kExaminedMax = 1'000'000;

  // The batch takes the removals of at most `removed_max` messages.
  DeleteExpander(const ShardState& shard, rocksdb::WriteBatch* batch, std::size_t removed_max)
      : shard_(shard), batch_(batch), removed_max_(removed_max) {}

  // What the steps of one large delete have looked at, by slab.
  using Progress = std::map<SlabId, RemovalProgress>;
  // Lets Remove go on where earlier steps of the same delete have ended, and note how far it comes.
  // If a call fails, or the batch is not written, `progress` must not be used any more. It must
  // outlive the expander. REQUIRES: Remove is called for this delete alone
  void GoOnFrom(Progress* progress) { progress_ = progress; }

  // Lets Remove end once it has examined this many messages from now on. Without it, a delete that
  // finds few messages among many would hold up other commits until it has looked at all of them.
  // Only the layout columnar takes notice of it.
  void LimitExamined(std::size_t rows) { examined_left_ = rows; }

  // Adds the removals of the messages that the record matches, with their index entries. Returns
  // false if some messages remain because the batch is full, or may remain because enough were
  // examined. There is always room for a record of a single message (IsPoint). With `masked`,
  // leaves out the messages that an unfinished delete hides.
  Result<bool> Remove(const meta::DeleteRecord& record, bool masked) TOPICDB_REQUIRES(shard_.mutex);
  // Does the same for one slab, which need not be among those of the shard. Leaves out the messages
  // that `masks` hide.
  Result<bool> RemoveFrom(const Slab& slab, const meta::DeleteRecord& record,
                          const std::vector<RowMask>& masks) TOPICDB_REQUIRES(shard_.mutex);
  // Adds what the removers of the slabs still hold to the batch. The caller must call this once,
  // before it writes the batch.
  Status Finish();

  // Returns how many messages the batch removes.
  std::size_t removed() const { return removed_; }

 private:
  // Does the work of RemoveFrom for a record of a single message.
  Status RemovePoint(const Slab& slab, const meta::DeleteRecord& record,
                     const std::vector<RowMask>& masks) TOPICDB_REQUIRES(shard_.mutex);
  SlabRemover& RemoverOf(const Slab& slab);

  const ShardState& shard_;
  rocksdb::WriteBatch* const batch_;
  const std::size_t removed_max_;
  std::size_t removed_ = 0;
  std::map<SlabId, std::unique_ptr<SlabRemover>> removers_;
  Progress* progress_ = nullptr;  // null: Remove looks at everything
  std::size_t examined_left_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace topicdb
