// Merges slabs into one with the last messages of each topic; see keep_last in topicdb/options.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <rocksdb/write_batch.h>

#include "store/catalog/maintenance.h"
#include "store/shard/commit/merge_deletes.h"
#include "store/shard/generation/slab_dropper.h"
#include "store/shard/generation/slab_maker.h"
#include "store/shard/state/shard_state.h"
#include "topicdb/types/maintenance.h"

namespace topicdb {

// Merges slabs. It makes a new slab, which nobody else knows until the slab is complete and in
// files. One write then drops the merged slabs and adds the new one. So after a crash there are
// either the merged slabs or the new one. A Shard owns it. Any thread may call it, but only one
// merge may be under way: DatabaseUpkeep runs one at a time.
class LastMerger {
 public:
  LastMerger(ShardState& shard, MergeDeletes& deletes, SlabMaker& maker, SlabDropper& dropper)
      : shard_(shard), deletes_(deletes), maker_(maker), dropper_(dropper) {}

  // Makes the slab `to` of the last messages of each topic in the slabs `from`, and drops these.
  // Makes no slab if there are no messages. The new slab has the layout of a log if any of the
  // slabs `from` has. Returns how many messages the new slab has.
  //
  // If this fails, the slabs stay as they were. Returns kConflict if too much was deleted
  // meanwhile; the caller may try again. Returns kNotFound if a slab is gone, and kCorruption if a
  // message cannot be read. Also returns kInterrupted and kStorage.
  //
  // REQUIRES (Run): the slabs `from` are read-only
  Result<std::uint64_t> Run(const KeepLastMerge& merge, const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(shard_.mutex);

 private:
  // The state of a merge, which one step hands to the next.
  struct Merge {
    std::shared_ptr<rocks::ShardLog> log;  // through which all of it is written
    std::shared_ptr<const ShardView> moment;
    std::vector<std::shared_ptr<Slab>> from;
    meta::SlabRecord record;     // of the new slab
    std::shared_ptr<Slab> made;  // null: there are no messages to keep
    rocksdb::WriteBatch batch;   // the write that makes the new slab visible
  };
  // Finds the slabs to merge, and begins to remember what is deleted.
  Result<Merge> Begin(const KeepLastMerge& wanted) TOPICDB_EXCLUDES(shard_.mutex);
  // Makes the new slab and writes the last messages to it, while others commit.
  Status Fill(const KeepLastMerge& wanted, const InterruptCheck& interrupted, Merge* merge)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Returns Ok if this process still leads as it did in Begin.
  Status CheckLeads(const Merge& merge) const TOPICDB_REQUIRES(shard_.mutex);
  // Makes the new slab without messages. Readers do not see it.
  Status Prepare(const KeepLastMerge& wanted, Merge* merge) TOPICDB_EXCLUDES(shard_.mutex);
  // Carries out what was deleted since Begin, and replaces the merged slabs by the new one.
  Status Install(Merge* merge) TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
  MergeDeletes& deletes_ TOPICDB_GUARDED_BY(shard_.mutex);
  SlabMaker& maker_;
  SlabDropper& dropper_;
};

}  // namespace topicdb
