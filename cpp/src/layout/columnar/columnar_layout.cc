#include "layout/columnar/columnar_layout.h"

#include <algorithm>

#include "layout/columnar/care/block_check.h"
#include "layout/columnar/care/block_salvage.h"
#include "layout/columnar/columnar_remover.h"
#include "layout/columnar/columnar_writer.h"
#include "layout/columnar/read/columnar_log_reader.h"
#include "layout/columnar/read/columnar_reader.h"
#include "layout/columnar/read/last_finder.h"
#include "layout/columnar/seal/block_sealing.h"
#include "layout/columnar/seal/block_staging.h"
#include "layout/columnar/select/block_sizes.h"
#include "rocks/log/shard_log.h"
#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

namespace {

// Removes the pages whose number is greater than that of the last sealed block. They belong to
// blocks that were being sealed when the process ended, so no entry names them.
Status RemoveOrphans(const RocksSource& source, BlockId last_sealed) {
  rocksdb::WriteBatch batch;
  const std::unique_ptr<rocksdb::Iterator> pages(
      source.db->NewIterator(rocksdb::ReadOptions(), source.families.sealed));
  const std::string end = SealedPageKey(kStagedPagesMin, 0);
  for (pages->Seek(SealedPageKey(last_sealed.Next().value(), 0));
       pages->Valid() && pages->key().compare(end) < 0; pages->Next()) {
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(batch.Delete(source.families.sealed, pages->key()),
                                             "removing unfinished blocks"));
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(pages->status(), "looking for unfinished blocks"));
  if (batch.Count() == 0) return Status::Ok();
  return source.log->Write({rocks::EntryKind::kCleanup}, &batch);
}

}  // namespace

Status ColumnarLayout::Restore(const RocksSource& source, bool read_only,
                               LayoutState* state) const {
  BlockReader reader(source);
  BlockId last = kNoBlock;
  TOPICDB_RETURN_IF_ERROR(reader.ForEachFresh([&](const Block& block) {
    ++state->fresh_blocks;
    if (!block.entry.staged) state->fresh_bytes += block.entry.bytes;
    last = std::max(last, block.id);
    return true;
  }));
  TOPICDB_ASSIGN_OR_RETURN(const BlockId last_sealed, reader.LastSealed());
  TOPICDB_ASSIGN_OR_RETURN(const BlockId last_with_deleted, reader.LastWithDeleted());
  state->next_block = std::max({last, last_sealed, last_with_deleted}).Next().value();
  return read_only ? Status::Ok() : RemoveOrphans(source, last_sealed);
}

std::unique_ptr<SlabWriter> ColumnarLayout::NewWriter(const SlabFamilies& families,
                                                      LayoutState* state,
                                                      const ExpectedWrites& expected,
                                                      rocksdb::WriteBatch* batch) const {
  return std::make_unique<ColumnarWriter>(families, state, expected, batch);
}

Status ColumnarLayout::InstallStaged(const SlabFamilies& families, LayoutState* state,
                                     const StagedBlock& block, const StagedPlace& place,
                                     rocksdb::WriteBatch* batch) const {
  return columnar::InstallStaged(families, state, block, place, batch);
}

Result<StagedState> ColumnarLayout::FindStaged(const RocksSource& source,
                                               std::uint64_t pages) const {
  return columnar::FindStaged(source, pages);
}

Status ColumnarLayout::RemoveUnplaced(const RocksSource& source) const {
  return columnar::RemoveUnplaced(source);
}

// Sealing deletes records of blocks whose messages are in other blocks then.
bool ColumnarLayout::RemovesMessages(std::string_view key, bool deletes) const {
  return !deletes && key.starts_with(KindPrefix(RecordKind::kDeletedRows));
}

std::unique_ptr<SlabRemover> ColumnarLayout::NewRemover(const RocksSource& source,
                                                        rocksdb::WriteBatch* batch) const {
  return std::make_unique<ColumnarRemover>(source, batch);
}

std::unique_ptr<Sealing> ColumnarLayout::NewSealing(const RocksSource& source, LayoutState* state,
                                                    const SealLimits& limits) const {
  return std::make_unique<BlockSealing>(source, state, limits);
}

Result<std::optional<StoredMessage>> ColumnarLayout::Get(const RocksSource& source,
                                                         const PlacedMessage& place,
                                                         const std::vector<RowMask>& masks) const {
  TOPICDB_ASSIGN_OR_RETURN(Filter topic, Filter::Parse(place.topic));
  const ReadRequest request = PointRequest(place, std::move(topic), masks);
  PageMerge merge(source, request, MergeOrder::kTime, std::nullopt);
  std::optional<StoredMessage> found;
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const PageMerge::State state,
                             merge.Prepare(std::numeric_limits<std::size_t>::max()));
    if (state != PageMerge::State::kReady) return found;
    const std::span<const MergedRow> rows = merge.Ready();
    const Page& page = merge.page(rows.back());
    const std::uint32_t row = rows.back().row;
    found = {page.serial(row), std::string(page.value(row))};
    merge.Consume(rows.size());
  }
}

std::unique_ptr<StreamReader> ColumnarLayout::NewReader(const RocksSource& source,
                                                        ReadRequest request) const {
  return std::make_unique<ColumnarReader>(source, std::move(request));
}

Result<CheckCounts> ColumnarLayout::Check(const RocksSource& source, const SlabCheck& check) const {
  return BlockChecker(source, check).Run();
}

Result<StreamSizes> ColumnarLayout::SizesByStream(const RocksSource& source,
                                                  const std::vector<StreamId>&, const MessageCount&,
                                                  const InterruptCheck& interrupted) const {
  return columnar::SizesByStream(source, interrupted);
}

Status ColumnarLayout::Salvage(const RocksSource& source, const SlabSalvage& call) const {
  return BlockSalvage(source, call).Run();
}

std::unique_ptr<LastReader> ColumnarLayout::NewLastReader(const RocksSource& source,
                                                          ReadRequest request,
                                                          LastMessages* found) const {
  return std::make_unique<LastFinder>(source, std::move(request), found);
}

std::unique_ptr<LogReader> ColumnarLayout::NewLogReader(const RocksSource& source,
                                                        const ReadRequest& request,
                                                        Serial serial_min) const {
  return std::make_unique<ColumnarLogReader>(source, request, serial_min);
}

}  // namespace topicdb::columnar
