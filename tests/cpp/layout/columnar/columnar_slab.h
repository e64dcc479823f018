// A slab of the layout columnar in a RocksDB of its own, and a list of the messages that it must
// hold.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/columnar_layout.h"
#include "layout/columnar/format/page_examples.h"
#include "rocks/local_log.h"
#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::columnar {

class ColumnarSlab {
 public:
  ColumnarSlab() { Open(); }
  ~ColumnarSlab() { Close(); }
  ColumnarSlab(const ColumnarSlab&) = delete;
  ColumnarSlab& operator=(const ColumnarSlab&) = delete;

  // Closes the slab and opens it again, as after a crash: Restore finds out the state from what is
  // stored.
  void Reopen() {
    Close();
    Open();
  }

  // Writes the rows as one commit, in a fresh block, or in several if they are large. Sets their
  // serials and indexes.
  void Write(Rows rows) {
    rocksdb::WriteBatch batch;
    const auto writer = layout_.NewWriter(families(), state_.get(), {}, &batch);
    const std::uint64_t serial = next_serial_++;
    for (std::uint32_t index = 0; index < rows.size(); ++index) {
      Row& row = rows[index];
      row.serial = serial;
      row.index = index;
      ASSERT_TRUE(
          writer
              ->Add(
                  {StreamId{row.stream}, row.topic, {}, row.time, Serial{serial}, index, row.value})
              .ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
    ASSERT_TRUE(db_->Write({}, &batch).ok());
    writer->Apply();
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }

  // Removes the last commit, which is one fresh block, as a crash does if the log does not have it.
  // Leaves the record of its deleted rows, which the log has.
  void LoseLastCommit() {
    BlockId last = kNoBlock;
    Check(BlockReader(Source()).ForEachFresh([&](const Block& block) {
      last = block.id;
      return false;
    }));
    for (const RecordKind kind : {RecordKind::kFreshEntry, RecordKind::kFreshPage}) {
      EXPECT_TRUE(db_->Delete({}, families().main, RecordKey(kind, last)).ok());
    }
    std::erase_if(rows_, [&](const Row& row) { return row.serial + 1 == next_serial_; });
  }

  // Adds the rows as a job does, as one staged block in one commit. The block's groups have other
  // numbers than the streams. Sets the serials and indexes of the rows, and moves their times.
  void WriteStaged(Rows rows, std::int64_t time_shift = 0) {
    constexpr std::uint32_t kGroups = 10;  // how far the numbers of groups are from the streams'
    const std::uint64_t serial = next_serial_++;
    StagedRows staged;
    for (std::uint32_t index = 0; index < rows.size(); ++index) {
      Row& row = rows[index];
      staged.rows.push_back({index, static_cast<std::uint32_t>(staged.values.size()),
                             static_cast<std::uint32_t>(row.value.size()), row.time});
      staged.topics.push_back({kGroups + row.stream, row.topic});
      staged.values += row.value;
      staged.topic_bytes += row.topic.size();
      row.serial = serial;
      row.index = index;
      row.time += time_shift;
    }
    rocksdb::WriteBatch batch;
    StagedBlock block;
    const KeySink put = [&](std::string_view key, std::string_view page) {
      EXPECT_TRUE(batch.Put(families().sealed, key, page).ok());
      return Status::Ok();
    };
    Check(StageBlock(staged, kStagedPagesMin + serial, limits.page_bytes_max, put, &block));
    std::vector<StreamId> streams;
    for (const StagedTopic& topic : block.topics) streams.emplace_back(topic.group - kGroups);
    Check(layout_.log()->InstallStaged(families(), state_.get(), block,
                                       {Serial{serial}, time_shift, streams}, &batch));
    ASSERT_TRUE(db_->Write({}, &batch).ok());
    ++state_->fresh_blocks;
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }

  // Makes one step of sealing, and calls `between` before Install. Returns false if there is
  // nothing to do.
  bool Seal(SealScope scope, const std::function<void()>& between = {}) {
    const auto sealing = layout_.NewSealing(Source(), state_.get(), limits);
    const auto gathered = sealing->Gather(scope);
    EXPECT_TRUE(gathered.ok()) << gathered.status().message();
    if (!gathered.ok() || !*gathered) return false;
    Check(sealing->WriteData());
    if (between) between();
    rocksdb::WriteBatch batch;
    Check(sealing->Install(Source(), &batch));
    EXPECT_TRUE(db_->Write({}, &batch).ok());
    sealing->Apply();
    return true;
  }
  void SealAll(SealScope scope) {
    while (Seal(scope)) {
    }
  }

  // Deletes the messages that the request matches, and returns how many there were.
  std::size_t Remove(const ReadRequest& request) {
    std::size_t removed = 0;
    EXPECT_TRUE(RemoveSome(request, std::numeric_limits<std::size_t>::max(), &removed));
    EXPECT_EQ(removed, Forget(request));
    return removed;
  }
  // Makes one step of a large delete, and leaves the list as it is. Returns false if messages
  // remain.
  bool RemoveSome(const ReadRequest& request, std::size_t rows_max, std::size_t* removed) {
    rocksdb::WriteBatch batch;
    const auto remover = layout_.NewRemover(Source(), &batch);
    const auto complete = remover->Remove(request, rows_max, removed);
    Check(complete.status());
    Check(remover->Finish());
    EXPECT_TRUE(db_->Write({}, &batch).ok());
    return complete.ok() && *complete;
  }
  // Removes messages from the list alone, and returns how many there were.
  std::size_t Forget(const ReadRequest& request) {
    return std::erase_if(rows_, [&](const Row& row) { return IsWanted(request, row); });
  }

  static bool IsWanted(const ReadRequest& request, const Row& row) {
    if (request.streams.has_value() && std::find(request.streams->begin(), request.streams->end(),
                                                 StreamId{row.stream}) == request.streams->end()) {
      return false;
    }
    const Position& position = request.position;
    const bool is_behind =
        position.kind == Position::Kind::kAtTime
            ? row.time >= position.timestamp
            : std::tuple(row.time, row.serial, row.index) >
                  std::tuple(position.timestamp, position.serial.value(), position.index);
    return is_behind && Serial{row.serial} <= request.serial_max &&
           Contains(request.range, row.time) && request.filter.Matches(row.topic) &&
           std::none_of(request.masks.begin(), request.masks.end(), [&](const RowMask& mask) {
             return mask.Hides(row.topic, row.time, Serial{row.serial}, row.index);
           });
  }
  // Returns the messages that a read must find, in the order in which it finds them.
  Rows Expected(const ReadRequest& request) const {
    Rows wanted;
    for (const Row& row : rows_) {
      if (IsWanted(request, row)) wanted.push_back(row);
    }
    std::sort(wanted.begin(), wanted.end(), [](const Row& a, const Row& b) {
      return std::tuple(a.time, a.serial, a.index) < std::tuple(b.time, b.serial, b.index);
    });
    return wanted;
  }

  std::vector<Block> Sealed() const {
    std::vector<Block> blocks;
    Check(BlockReader(Source()).ForEachSealed([&](Block block) {
      blocks.push_back(std::move(block));
      return true;
    }));
    return blocks;
  }
  // Returns the fresh blocks in the order of commits.
  std::vector<Block> Fresh() const {
    std::vector<Block> blocks;
    Check(BlockReader(Source()).ForEachFresh([&](Block block) {
      blocks.insert(blocks.begin(), std::move(block));
      return true;
    }));
    return blocks;
  }
  Directory DirectoryOf(BlockId block) const {
    std::string value;
    Directory directory;
    EXPECT_TRUE(
        db_->Get({}, families().main, RecordKey(RecordKind::kDirectory, block), &value).ok());
    EXPECT_TRUE(Decode(value, &directory));
    return directory;
  }
  // Returns the keys of the pages of sealed blocks that are stored.
  std::set<std::string> PageKeys() const {
    std::set<std::string> keys;
    const std::unique_ptr<rocksdb::Iterator> pages(
        db_->NewIterator(rocksdb::ReadOptions(), families().sealed));
    for (pages->SeekToFirst(); pages->Valid(); pages->Next()) keys.insert(pages->key().ToString());
    return keys;
  }
  // Returns how many pages the sealed blocks have.
  std::size_t CountPages() const {
    std::size_t pages = 0;
    for (const Block& block : Sealed()) pages += block.entry.pages;
    return pages;
  }
  // Returns the keys of the pages that the sealed blocks must have.
  std::set<std::string> PageKeysOfBlocks() const {
    std::set<std::string> keys;
    for (const Block& block : Sealed()) {
      for (std::uint32_t page = 0; page < block.entry.pages; ++page) {
        keys.insert(SealedPageKey(block.id.value(), page));
        if (HasValueRecords(block.entry)) {
          keys.insert(SealedPageKey(block.id.value(), ValuesOf(page)));
        }
      }
    }
    return keys;
  }
  // Returns a page of a sealed block, as it is stored.
  StoredPage Stored(const Block& block, std::uint32_t page) const {
    const auto stored = BlockReader(Source()).LoadStored(block, page, PageParts::kAll, nullptr);
    Check(stored.status());
    return stored.ok() ? *stored : StoredPage();
  }
  // Change a record of the family `main`, or a page of the family `sealed`.
  void PutRecord(const std::string& key, const std::string& value) {
    ASSERT_TRUE(db_->Put({}, families().main, key, value).ok());
  }
  void RemoveRecord(const std::string& key) {
    ASSERT_TRUE(db_->Delete({}, families().main, key).ok());
  }
  void PutPage(const std::string& key, const std::string& value) {
    ASSERT_TRUE(db_->Put({}, families().sealed, key, value).ok());
  }
  void RemovePage(const std::string& key) {
    ASSERT_TRUE(db_->Delete({}, families().sealed, key).ok());
  }
  // Returns how many records of one kind are stored.
  std::size_t CountOf(RecordKind kind) const {
    std::size_t count = 0;
    const std::unique_ptr<rocksdb::Iterator> records(
        db_->NewIterator(rocksdb::ReadOptions(), families().main));
    const std::string prefix = KindPrefix(kind);
    for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
         records->Next()) {
      ++count;
    }
    return count;
  }

  SlabFamilies families() const { return {handles_[1], handles_[2]}; }
  RocksSource Source(const rocksdb::Snapshot* snapshot = nullptr) const {
    return {db_.get(), snapshot, families(), log_.get()};
  }
  rocksdb::DB& db() { return *db_; }
  LayoutState& state() { return *state_; }
  const Layout& layout() const { return layout_; }
  const Rows& rows() const { return rows_; }

  // These limits are small, so that a few messages make many blocks and pages.
  SealLimits limits{4'000, 10, 8'000, 500};

 private:
  static void Check(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

  void Open() {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    const rocks::Families families{{"default", {}}, {"main", {}}, {"sealed", {}}};
    ASSERT_TRUE(rocks::Open(options, directory_ / "db", families, &handles_, &db_).ok());
    log_ = std::make_unique<rocks::LocalLog>(db_.get(), "a slab");
    state_ = std::make_unique<LayoutState>();
    Check(layout_.Restore(Source(), false, state_.get()));
  }
  void Close() {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    }
    handles_.clear();
    log_.reset();
    db_.reset();
  }

  const TestDirectory directory_;
  const ColumnarLayout layout_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<rocks::LocalLog> log_;
  rocks::FamilyHandles handles_;
  std::unique_ptr<LayoutState> state_;
  std::uint64_t next_serial_ = 1;
  Rows rows_;  // in the order of commits
};

inline ReadRequest Request(const std::string& filter) {
  ReadRequest request;
  request.filter = Filter::Parse(filter).value();
  return request;
}

// Returns everything that a reader of the layout gives. Streams, serials and indexes are 0, since
// the values tell messages apart.
inline Rows ReadAll(const ColumnarSlab& slab, const ReadRequest& request,
                    const ReadLimits& limits = {1'000, 1 << 20, 1'000'000}) {
  Rows rows;
  const auto reader = slab.layout().NewReader(slab.Source(), request);
  while (true) {
    Batch batch;
    const auto outcome = reader->Read(limits, &batch);
    EXPECT_TRUE(outcome.ok()) << outcome.status().message();
    EXPECT_LE(batch.size(), limits.rows_max);
    for (std::size_t row = 0; row < batch.size(); ++row) {
      rows.push_back({0, std::string(batch.topic(row)), batch.timestamp(row), 0, 0,
                      std::string(batch.value(row))});
    }
    if (!outcome.ok() || *outcome == ReadOutcome::kExhausted) return rows;
  }
}

// Returns the rows as ReadAll gives them.
inline Rows AsRead(Rows rows) {
  for (Row& row : rows) row.stream = row.index = static_cast<std::uint32_t>(row.serial = 0);
  return rows;
}

}  // namespace topicdb::columnar
