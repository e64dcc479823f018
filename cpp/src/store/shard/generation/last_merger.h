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

// Makes a new slab beside the others, which is unknown to everybody until it is complete and in
// files. One write then takes the others away and brings it in. So a crash leaves the ones or the
// other. A Shard owns it. Thread-safe, but only one merge may be under way.
class LastMerger {
 public:
  LastMerger(ShardState& shard, MergeDeletes& deletes, SlabMaker& maker, SlabDropper& dropper)
      : shard_(shard), deletes_(deletes), maker_(maker), dropper_(dropper) {}

  // Makes `to` of the last messages of each topic in `from`, which are read-only slabs and go with
  // it; none if there are no messages. Returns how many messages it has. kConflict: too much was
  // deleted meanwhile, try again. kCorruption, and nothing is changed, if a message cannot be read.
  // kNotFound, kInterrupted.
  Result<std::uint64_t> Run(const KeepLastMerge& merge, const InterruptCheck& interrupted)
      TOPICDB_EXCLUDES(shard_.mutex);

 private:
  // What the steps have in common.
  struct Merge {
    std::shared_ptr<const ShardView> moment;
    std::vector<std::shared_ptr<Slab>> from;
    meta::SlabRecord record;     // of the new slab
    std::shared_ptr<Slab> made;  // null: there is nothing to be kept
    rocksdb::WriteBatch batch;   // what makes it seen
  };
  Result<Merge> Begin(const KeepLastMerge& wanted) TOPICDB_EXCLUDES(shard_.mutex);
  Status Fill(const KeepLastMerge& wanted, const InterruptCheck& interrupted, Merge* merge)
      TOPICDB_EXCLUDES(shard_.mutex);
  // Makes the new slab, with nothing in it and unknown to readers.
  Status Prepare(const KeepLastMerge& wanted, Merge* merge) TOPICDB_EXCLUDES(shard_.mutex);
  // Carries out what was deleted since it began, and has the new slab take the place of the others.
  Status Install(Merge* merge) TOPICDB_REQUIRES(shard_.mutex);

  ShardState& shard_;
  MergeDeletes& deletes_ TOPICDB_GUARDED_BY(shard_.mutex);
  SlabMaker& maker_;
  SlabDropper& dropper_;
};

}  // namespace topicdb
