#include "store/slab/slab_write.h"

#include <algorithm>
#include <utility>

#include "rocks/rocks_compat.h"

namespace topicdb {

namespace {

// The limits of one write.
constexpr std::size_t kBatchRowsMax = 16'384;
constexpr std::size_t kBatchBytesMax = std::size_t{4} << 20;

}  // namespace

SlabWrite::SlabWrite(rocksdb::DB* db, rocks::ShardLog* log, const SealLimits& limits, Slab* slab)
    : db_(db), log_(log), limits_(limits), slab_(slab), counters_(slab->CountersForCommit()) {}

SlabWrite::Batch::Batch(const Slab& slab)
    : edit(slab.TrieForCommit()),
      writer(slab.layout().NewWriter(slab.families(), slab.layout_state(),
                                     {kBatchRowsMax, kBatchBytesMax}, &messages)) {}

Status SlabWrite::Take(const SalvagedRow& row) {
  const bool goes_back = std::exchange(last_, row.serial) > row.serial;
  if (goes_back && slab_->log() != nullptr) TOPICDB_RETURN_IF_ERROR(Write());
  if (batch_ == nullptr) batch_ = std::make_unique<Batch>(*slab_);
  PlacedMessage placed{batch_->edit.Resolve(row.topic, &varying_),
                       row.topic,
                       {},
                       row.timestamp,
                       row.serial,
                       row.index,
                       row.value};
  if (slab_->layout().needs_words()) placed.varying = varying_;
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch_->writer->Add(placed), "writing a message"));
  const std::size_t bytes = row.topic.size() + row.value.size();
  counters_.Count(1, row.timestamp, row.timestamp, bytes);
  serial_max_ = std::max(serial_max_, row.serial);
  ++batch_->rows;
  batch_->bytes += bytes;
  const bool is_full = batch_->rows >= kBatchRowsMax || batch_->bytes >= kBatchBytesMax;
  return is_full ? Write() : Status::Ok();
}

Status SlabWrite::Finish(bool read_only) {
  TOPICDB_RETURN_IF_ERROR(Write());
  if (slab_->log() == nullptr) return Status::Ok();
  return Seal(read_only ? SealScope::kClosed : SealScope::kFresh);
}

rocksdb::Status SlabWrite::PutRecords(rocksdb::WriteBatch* batch) const {
  rocksdb::Status status = batch->Put(meta::CountersKey(slab_->id()), meta::Encode(counters_));
  for (const NodeRecord& node : nodes_) {
    if (status.ok()) status = batch->Put(meta::NodeKey(slab_->id(), node.id), meta::Encode(node));
  }
  return status;
}

Status SlabWrite::Write() {
  if (batch_ == nullptr) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch_->writer->Finish(), "writing messages"));
  TOPICDB_RETURN_IF_ERROR(log_->Write(
      {rocks::EntryKind::kGeneration, rocks::EntryDurability::kMemory}, &batch_->messages));
  batch_->writer->Apply();
  slab_->ApplyCommit(batch_->edit, counters_);
  nodes_.insert(nodes_.end(), batch_->edit.nodes().begin(), batch_->edit.nodes().end());
  batch_.reset();
  const bool is_due =
      slab_->log() != nullptr && slab_->layout_state()->fresh_bytes >= limits_.fresh_bytes_max;
  return is_due ? Seal(SealScope::kDue) : Status::Ok();
}

Status SlabWrite::Seal(SealScope scope) {
  const RocksSource source{db_, nullptr, slab_->families(), log_};
  while (true) {
    const auto sealing = slab_->log()->NewSealing(source, slab_->layout_state(), limits_);
    TOPICDB_ASSIGN_OR_RETURN(const bool gathered, sealing->Gather(scope));
    if (!gathered) return Status::Ok();
    TOPICDB_RETURN_IF_ERROR(sealing->WriteData());
    rocksdb::WriteBatch batch;
    TOPICDB_RETURN_IF_ERROR(sealing->Install(source, &batch));
    TOPICDB_RETURN_IF_ERROR(log_->Write({rocks::EntryKind::kSealing}, &batch));
    sealing->Apply();
  }
}

}  // namespace topicdb
