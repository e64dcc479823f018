// Seals blocks. Blocks that follow each other in the order of commits become one sealed block. It
// is sorted by stream, topic, timestamp, serial and index, and leaves out deleted rows.
//
// Sealing takes fresh blocks first. It merges small sealed blocks in the same way, eight blocks of
// similar size at a time. So a message is written again a number of times that grows with the
// logarithm of the sizes.
//
// While messages are added, pages are compressed with LZ4. LZ4 takes a quarter of the time of
// Zstandard to read, and half of the time to write. Once the slab is closed, pages are compressed
// with Zstandard, and take half the space.
//
// No reader sees the new pages before the entry of their block is written. So a crash leaves either
// the old blocks or the new ones.
#pragma once

#include <memory>

#include "layout/columnar/seal/sealing_plan.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Writes the messages of a plan's blocks to new blocks. Owned by one step of sealing, which calls
// Load, WriteData and Install in this order. Not thread-safe.
class BlockRewrite {
 public:
  // `plan` must outlive the object.
  BlockRewrite(const RocksSource& source, LayoutState* state, const SealLimits& limits,
               const SealingPlan& plan)
      : source_(source), state_(state), limits_(limits), plan_(plan) {}
  virtual ~BlockRewrite() = default;
  BlockRewrite(const BlockRewrite&) = delete;
  BlockRewrite& operator=(const BlockRewrite&) = delete;

  // Reads what WriteData needs of the blocks. Returns kCorruption if a block is damaged.
  virtual Status Load() = 0;
  // As Sealing::WriteData.
  virtual Status WriteData() = 0;
  // As Sealing::Install, but adds no removals of the old blocks.
  virtual Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) = 0;

 protected:
  const RocksSource source_;
  LayoutState* const state_;
  const SealLimits limits_;
  const SealingPlan& plan_;
};

// One step of sealing. The caller of NewSealing owns it. Not thread-safe.
class BlockSealing : public Sealing {
 public:
  BlockSealing(const RocksSource& source, LayoutState* state, const SealLimits& limits)
      : source_(source), state_(state), limits_(limits) {}

  Result<bool> Gather(SealScope scope) override;
  Status WriteData() override;
  Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) override;
  void Apply() override;

 private:
  // Adds to the batch the records that make staged blocks sealed ones.
  Status Promote(const RocksSource& now, rocksdb::WriteBatch* batch) const;

  const RocksSource source_;
  LayoutState* const state_;
  const SealLimits limits_;
  SealingPlan plan_;
  std::unique_ptr<BlockRewrite> rewrite_;  // null: no message is written again
};

}  // namespace topicdb::columnar
