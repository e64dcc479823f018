#include "layout/columnar/seal/block_sealing.h"

#include "layout/columnar/seal/block_merge.h"
#include "layout/columnar/seal/block_output.h"
#include "layout/columnar/seal/block_spread.h"
#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

Result<bool> BlockSealing::Gather(SealScope scope) {
  BlockReader reader(source_);
  TOPICDB_ASSIGN_OR_RETURN(plan_, PlanSealing(&reader, *state_, limits_, scope));
  if (plan_.kind == SealingPlan::Kind::kNothing) return false;
  if (plan_.kind == SealingPlan::Kind::kPromote) return true;
  if (plan_.kind == SealingPlan::Kind::kSpread) {
    rewrite_ = std::make_unique<BlockSpread>(source_, state_, limits_, plan_);
  } else {
    rewrite_ = std::make_unique<BlockMerge>(source_, state_, limits_, plan_);
  }
  TOPICDB_RETURN_IF_ERROR(rewrite_->Load());
  return true;
}

Status BlockSealing::WriteData() {
  return rewrite_ == nullptr ? Status::Ok() : rewrite_->WriteData();
}

Status BlockSealing::Promote(const RocksSource& now, rocksdb::WriteBatch* batch) const {
  rocksdb::Status status;
  for (const Block& block : plan_.blocks) {
    if (status.ok()) {
      status = batch->Delete(now.families.main, RecordKey(RecordKind::kFreshEntry, block.id));
    }
    if (status.ok()) {
      status = batch->Put(now.families.main, RecordKey(RecordKind::kSealedEntry, block.id),
                          Encode(block.entry));
    }
  }
  return rocks::FromRocks(status, "sealing blocks");
}

Status BlockSealing::Install(const RocksSource& now, rocksdb::WriteBatch* batch) {
  if (rewrite_ == nullptr) return Promote(now, batch);
  TOPICDB_RETURN_IF_ERROR(rewrite_->Install(now, batch));
  for (const Block& block : plan_.blocks) {
    TOPICDB_RETURN_IF_ERROR(RemoveBlock(now, block, batch));
  }
  return Status::Ok();
}

void BlockSealing::Apply() {
  for (const Block& block : plan_.blocks) {
    if (rewrite_ != nullptr) {
      (block.sealed ? state_->resealed_bytes : state_->sealed_bytes) += block.entry.bytes;
    }
    if (block.sealed) continue;
    --state_->fresh_blocks;
    if (!block.entry.staged) state_->fresh_bytes -= block.entry.bytes;
  }
}

}  // namespace topicdb::columnar
