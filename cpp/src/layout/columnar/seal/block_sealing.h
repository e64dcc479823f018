// Sealing: blocks that follow each other in commit order become one sealed block, sorted by stream,
// topic, timestamp, serial and index, without the rows that were deleted. Fresh blocks first; small
// sealed blocks are merged the same way, eight of like size at a time, so that a message is written
// again a number of times that is the logarithm of the sizes.
//
// LZ4 while messages are added: it takes a quarter of the time of Zstandard to read and half to
// write. Zstandard once the slab is closed, in half the space.
//
// What is written before the entry is put is seen by nobody, so a crash leaves the old blocks or
// the new ones.
#pragma once

#include <memory>

#include "layout/columnar/seal/sealing_plan.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// What becomes of the blocks of a plan. Owned by one step of sealing; not thread-safe. Its
// functions are called in this order.
class BlockRewrite {
 public:
  // The plan outlives it.
  BlockRewrite(const RocksSource& source, LayoutState* state, const SealLimits& limits,
               const SealingPlan& plan)
      : source_(source), state_(state), limits_(limits), plan_(plan) {}
  virtual ~BlockRewrite() = default;
  BlockRewrite(const BlockRewrite&) = delete;
  BlockRewrite& operator=(const BlockRewrite&) = delete;

  // kCorruption.
  virtual Status Load() = 0;
  // See Sealing.
  virtual Status WriteData() = 0;
  // Adds all but the removal of the blocks.
  virtual Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) = 0;

 protected:
  const RocksSource source_;
  LayoutState* const state_;
  const SealLimits limits_;
  const SealingPlan& plan_;
};

class BlockSealing : public Sealing {
 public:
  BlockSealing(const RocksSource& source, LayoutState* state, const SealLimits& limits)
      : source_(source), state_(state), limits_(limits) {}

  Result<bool> Gather(SealScope scope) override;
  Status WriteData() override;
  Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) override;
  void Apply() override;

 private:
  Status Promote(const RocksSource& now, rocksdb::WriteBatch* batch) const;

  const RocksSource source_;
  LayoutState* const state_;
  const SealLimits limits_;
  SealingPlan plan_;
  std::unique_ptr<BlockRewrite> rewrite_;  // null: nothing is written anew
};

}  // namespace topicdb::columnar
