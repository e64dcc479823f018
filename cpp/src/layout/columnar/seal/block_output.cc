#include "layout/columnar/seal/block_output.h"

#include "rocks/log/shard_log.h"
#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kWriteBytes = std::size_t{1} << 20;

}  // namespace

Status BlockOutput::WritePages(const RocksSource& source, std::span<const PackedRow> rows) {
  rocksdb::WriteBatch batch;
  const auto write = [&] {
    Status status = source.log->Write({rocks::EntryKind::kData}, &batch);
    batch.Clear();
    return status;
  };
  const PageSink put = [&](std::uint32_t number, std::string_view record) {
    const rocksdb::Status status =
        batch.Put(source.families.sealed, SealedPageKey(id_.value(), number), record);
    if (status.ok() && batch.GetDataSize() >= kWriteBytes) return write();
    return rocks::FromRocks(status, "sealing blocks");
  };
  TOPICDB_RETURN_IF_ERROR(builder_.Build(rows, put));
  entry_ = builder_.entry();
  entry_.level = level_;
  // The list of topics is compressed here, because commits wait while PutRecords runs.
  TOPICDB_ASSIGN_OR_RETURN(topic_record_, builder_.TopicRecord());
  return write();
}

Status BlockOutput::PutRecords(const RocksSource& now, const DeletedByPage& deleted,
                               rocksdb::WriteBatch* batch) const {
  rocksdb::Status status;
  const auto put = [&](const std::string& key, const std::string& value) {
    if (status.ok()) status = batch->Put(now.families.main, key, value);
  };
  put(RecordKey(RecordKind::kSealedEntry, id_), Encode(entry_));
  put(RecordKey(RecordKind::kDirectory, id_), Encode(builder_.directory()));
  put(RecordKey(RecordKind::kWordFilter, id_), EncodeFilter(builder_.word_filter()));
  if (IsWorthStoring(topic_record_, entry_.bytes)) {
    put(RecordKey(RecordKind::kTopics, id_), topic_record_);
  }
  for (const auto& [page, rows] : deleted) put(DeletedRowsKey(id_, page), Encode(rows));
  return rocks::FromRocks(status, "sealing blocks");
}

Status RemoveBlock(const RocksSource& now, const Block& block, rocksdb::WriteBatch* batch) {
  BlockReader reader(now);
  rocksdb::Status status;
  const auto remove = [&](rocksdb::ColumnFamilyHandle* family, const std::string& key) {
    if (status.ok()) status = batch->Delete(family, key);
  };
  std::uint64_t pages = block.id.value();
  if (block.entry.staged) {
    TOPICDB_ASSIGN_OR_RETURN(const auto placement, reader.LoadPlacement(block));
    pages = placement->pages;
    remove(now.families.main, RecordKey(RecordKind::kPlacement, block.id));
  }
  remove(now.families.main,
         RecordKey(block.sealed ? RecordKind::kSealedEntry : RecordKind::kFreshEntry, block.id));
  if (block.is_paged()) {
    remove(now.families.main, RecordKey(RecordKind::kDirectory, block.id));
    remove(now.families.main, RecordKey(RecordKind::kWordFilter, block.id));
    remove(now.families.main, RecordKey(RecordKind::kTopics, block.id));
    for (std::uint32_t page = 0; page < block.entry.pages; ++page) {
      remove(now.families.sealed, SealedPageKey(pages, page));
      // A removal of a key that is not there would count as garbage (rocks::MeasureGarbage).
      if (HasValueRecords(block.entry)) {
        remove(now.families.sealed, SealedPageKey(pages, ValuesOf(page)));
      }
    }
  } else {
    remove(now.families.main, RecordKey(RecordKind::kFreshPage, block.id));
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto deleted, reader.LoadDeleted(block.id));
  for (const auto& [page, rows] : deleted) {
    remove(now.families.main, DeletedRowsKey(block.id, page));
  }
  return rocks::FromRocks(status, "sealing blocks");
}

}  // namespace topicdb::columnar
