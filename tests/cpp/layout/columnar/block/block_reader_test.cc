#include "layout/columnar/block/block_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "layout/columnar/columnar_slab.h"
#include "layout/columnar/format/expect_page.h"

namespace topicdb::columnar {
namespace {

// A slab with two sealed blocks, two fresh ones, and a staged one behind these.
class BlockReaderTest : public ::testing::Test {
 protected:
  BlockReaderTest() {
    for (int i = 0; i < 2; ++i) {
      slab_.Write(Messages(60));
      EXPECT_TRUE(slab_.Seal(SealScope::kFresh));
    }
    slab_.Write(Messages(5));
    slab_.Write(Messages(5));
    slab_.WriteStaged(Messages(60));
    sealed_ = slab_.Sealed();
    fresh_ = slab_.Fresh();
  }

  static Rows Messages(std::uint32_t count) {
    Rows rows;
    for (std::uint32_t i = 0; i < count; ++i) {
      rows.push_back({1 + i % 2, "t/" + std::to_string(i % 2), 100 + i, 0, 0, std::to_string(i)});
    }
    return rows;
  }
  // Returns the rows of one commit in the order of a sealed block.
  Rows OfCommit(std::uint64_t serial) const {
    Rows rows;
    for (const Row& row : slab_.rows()) {
      if (row.serial == serial) rows.push_back(row);
    }
    return rows;
  }
  Rows AllPages(BlockReader* reader, const Block& block) const {
    Rows rows;
    for (std::uint32_t page = 0; page < block.entry.pages; ++page) {
      const auto loaded = reader->LoadPage(block, page);
      EXPECT_TRUE(loaded.ok()) << loaded.status().message();
      if (!loaded.ok()) return rows;
      const Rows of_page = RowsOf(**loaded);
      rows.insert(rows.end(), of_page.begin(), of_page.end());
    }
    return rows;
  }
  // Returns the bytes of a record of the pages of sealed_[0].
  std::size_t SizeOf(std::uint32_t record) {
    std::string bytes;
    const std::string key = SealedPageKey(sealed_[0].id.value(), record);
    EXPECT_TRUE(slab_.db().Get({}, slab_.families().sealed, key, &bytes).ok());
    return bytes.size();
  }
  BlockReader Reader() const { return BlockReader(slab_.Source()); }

  ColumnarSlab slab_;
  std::vector<Block> sealed_;
  std::vector<Block> fresh_;
};

void ExpectCorruption(const Status& status, const std::string& what) {
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
}

TEST_F(BlockReaderTest, VisitsSealedBlocksForwardsAndFreshOnesBackwards) {
  std::vector<BlockId> sealed;
  std::vector<BlockId> fresh;
  ASSERT_TRUE(Reader()
                  .ForEachSealed([&](const Block& block) {
                    EXPECT_TRUE(block.sealed && block.is_paged());
                    sealed.push_back(block.id);
                    return true;
                  })
                  .ok());
  ASSERT_TRUE(Reader()
                  .ForEachFresh([&](const Block& block) {
                    EXPECT_FALSE(block.sealed);
                    EXPECT_EQ(block.is_paged(), block.entry.staged);
                    fresh.push_back(block.id);
                    return true;
                  })
                  .ok());
  ASSERT_EQ(sealed.size(), 2U);
  EXPECT_LT(sealed[0], sealed[1]);
  ASSERT_EQ(fresh.size(), 3U);
  EXPECT_GT(fresh[0], fresh[1]);
  EXPECT_GT(fresh[1], fresh[2]);
  EXPECT_TRUE(fresh_[2].entry.staged);
}

TEST_F(BlockReaderTest, StopsWhenItIsTold) {
  int visits = 0;
  const auto first_only = [&](const Block&) {
    ++visits;
    return false;
  };
  EXPECT_TRUE(Reader().ForEachSealed(first_only).ok());
  EXPECT_EQ(visits, 1);
  EXPECT_TRUE(Reader().ForEachFresh(first_only).ok());
  EXPECT_EQ(visits, 2);
}

TEST_F(BlockReaderTest, KnowsTheLastSealedBlock) {
  EXPECT_EQ(Reader().LastSealed().value(), sealed_.back().id);
  const ColumnarSlab empty;
  EXPECT_EQ(BlockReader(empty.Source()).LastSealed().value(), kNoBlock);
}

TEST_F(BlockReaderTest, LoadsThePagesOfEachKindOfBlock) {
  BlockReader reader = Reader();
  Rows sorted = OfCommit(1);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_GT(sealed_[0].entry.pages, 1U);
  EXPECT_EQ(AllPages(&reader, sealed_[0]), sorted);
  EXPECT_EQ(AllPages(&reader, fresh_[0]), OfCommit(3)) << "as they came";
  Rows staged = OfCommit(5);
  std::sort(staged.begin(), staged.end());
  EXPECT_EQ(AllPages(&reader, fresh_[2]), staged);
}

TEST_F(BlockReaderTest, CountsTheBytesOfThePagesItLoads) {
  BlockReader reader = Reader();
  EXPECT_EQ(reader.bytes_read(), 0U);
  const std::size_t keys = SizeOf(0);
  const std::size_t page = keys + SizeOf(ValuesOf(0));
  ASSERT_TRUE(reader.LoadPage(sealed_[0], 0).ok());
  EXPECT_EQ(reader.bytes_read(), page);
  const std::vector<BlockReader::PageRef> wanted{{&sealed_[0], 0}, {&sealed_[0], 0}};
  ASSERT_TRUE(reader.LoadPages(wanted).ok());
  EXPECT_EQ(reader.bytes_read(), 3 * page);
  ASSERT_TRUE(reader.LoadPages(wanted, PageParts::kKeys).ok());
  EXPECT_EQ(reader.bytes_read(), 3 * page + 2 * keys);
}

TEST_F(BlockReaderTest, WithoutValuesItDoesNotTouchThem) {
  for (const Block& block : {sealed_[0], fresh_[2]}) {
    const std::uint64_t pages = Reader().LoadPlacement(block).value() == nullptr
                                    ? block.id.value()
                                    : Reader().LoadPlacement(block).value()->pages;
    for (std::uint32_t page = 0; page < block.entry.pages; ++page) {
      const Rows rows = RowsOf(*Reader().LoadPage(block, page).value());
      slab_.PutPage(SealedPageKey(pages, ValuesOf(page)), "damaged");
      const auto keys = Reader().LoadPage(block, page, PageParts::kKeys);
      ASSERT_TRUE(keys.ok()) << keys.status().message();
      EXPECT_EQ(RowsOf(**keys), WithoutValues(rows));
      ExpectCorruption(Reader().LoadPage(block, page).status(),
                       NameOf(block.id) + ", page " + std::to_string(page));
      slab_.RemovePage(SealedPageKey(pages, ValuesOf(page)));
      EXPECT_TRUE(Reader().LoadPage(block, page, PageParts::kKeys).ok());
      ExpectCorruption(Reader().LoadPage(block, page).status(),
                       NameOf(block.id) + ": its page of values is missing");
    }
  }
  EXPECT_EQ(RowsOf(*Reader().LoadPage(fresh_[0], 0, PageParts::kKeys).value()),
            WithoutValues(OfCommit(3)));
}

TEST_F(BlockReaderTest, LoadsManyPagesInTheOrderInWhichTheyAreWanted) {
  BlockReader reader = Reader();
  const std::vector<BlockReader::PageRef> wanted{
      {&fresh_[2], 1}, {&sealed_[1], 0}, {&fresh_[0], 0}, {&sealed_[0], 1}, {&fresh_[2], 0}};
  const auto pages = reader.LoadPages(wanted);
  ASSERT_TRUE(pages.ok()) << pages.status().message();
  ASSERT_EQ(pages->size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto alone = Reader().LoadPage(*wanted[i].block, wanted[i].page).value();
    EXPECT_EQ(RowsOf(*pages->at(i)), RowsOf(*alone)) << i;
  }
  EXPECT_TRUE(reader.LoadPages({}).value().empty());
}

// Large pages are loaded by several threads.
TEST(BlockReader, LoadsLargePagesInTheOrderInWhichTheyAreWanted) {
  ColumnarSlab slab;
  std::vector<std::string> values;
  for (char c = 'a'; c < 'm'; ++c) {
    values.emplace_back(300'000, c);
    slab.Write({{1, "t", 1, 0, 0, values.back()}});
  }
  const std::vector<Block> blocks = slab.Fresh();
  std::vector<BlockReader::PageRef> wanted;
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
    wanted.push_back({&*block, 0});
  BlockReader reader(slab.Source());
  const auto pages = reader.LoadPages(wanted);
  ASSERT_TRUE(pages.ok()) << pages.status().message();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(pages->at(i)->value(0) == values[values.size() - 1 - i]) << i;
  }
  EXPECT_GT(reader.bytes_read(), 12U * 300'000);
  slab.RemoveRecord(RecordKey(RecordKind::kFreshPage, blocks[4].id));
  ExpectCorruption(reader.LoadPages(wanted).status(), NameOf(blocks[4].id) + ": its page");
}

TEST_F(BlockReaderTest, ARecordThatIsMissingIsNamedWithItsBlock) {
  const BlockId id = sealed_[0].id;
  slab_.RemoveRecord(RecordKey(RecordKind::kDirectory, id));
  slab_.RemoveRecord(RecordKey(RecordKind::kWordFilter, id));
  slab_.RemoveRecord(RecordKey(RecordKind::kPlacement, fresh_[2].id));
  slab_.RemoveRecord(RecordKey(RecordKind::kFreshPage, fresh_[0].id));
  slab_.RemovePage(SealedPageKey(id.value(), 1));
  BlockReader reader = Reader();
  ExpectCorruption(reader.LoadDirectory(id).status(), NameOf(id) + ": its directory is missing");
  ExpectCorruption(reader.LoadWordFilter(id).status(), NameOf(id) + ": its word filter is missing");
  ExpectCorruption(reader.LoadPlacement(fresh_[2]).status(),
                   NameOf(fresh_[2].id) + ": its placement is missing");
  ExpectCorruption(reader.LoadPage(fresh_[2], 0).status(), "its placement is missing");
  ExpectCorruption(reader.LoadPage(fresh_[0], 0).status(),
                   NameOf(fresh_[0].id) + ": its page is missing");
  ExpectCorruption(reader.LoadPage(sealed_[0], 1).status(), NameOf(id) + ": its page is missing");
  EXPECT_TRUE(reader.LoadPage(sealed_[0], 0).ok());
}

TEST_F(BlockReaderTest, ARecordThatIsDamagedIsNamedWithItsBlock) {
  const BlockId id = sealed_[0].id;
  slab_.PutRecord(RecordKey(RecordKind::kDirectory, id), "damaged");
  slab_.PutRecord(RecordKey(RecordKind::kWordFilter, id), "damaged");
  slab_.PutRecord(RecordKey(RecordKind::kPlacement, fresh_[2].id), "damaged");
  slab_.PutRecord(DeletedRowsKey(id, 0), "damaged");
  slab_.PutPage(SealedPageKey(id.value(), 1), "damaged");
  BlockReader reader = Reader();
  ExpectCorruption(reader.LoadDirectory(id).status(), NameOf(id) + ": its directory is damaged");
  ExpectCorruption(reader.LoadWordFilter(id).status(), "its word filter is damaged");
  ExpectCorruption(reader.LoadPlacement(fresh_[2]).status(), "its placement is damaged");
  ExpectCorruption(reader.LoadDeleted(id).status(), "its list of deleted messages is damaged");
  ExpectCorruption(reader.LoadPage(sealed_[0], 1).status(), NameOf(id) + ", page 1");
  slab_.PutRecord(RecordKey(RecordKind::kSealedEntry, id), "damaged");
  const auto all = [](const Block&) { return true; };
  ExpectCorruption(Reader().ForEachSealed(all), NameOf(id) + ": its entry is damaged");
  EXPECT_TRUE(Reader().ForEachFresh(all).ok());
}

TEST_F(BlockReaderTest, ADirectoryMustFitItsBlock) {
  BlockReader reader = Reader();
  EXPECT_EQ(reader.LoadDirectory(sealed_[0]).value().size(), sealed_[0].entry.pages);
  Block other = sealed_[0];
  other.entry.rows += 1;
  ExpectCorruption(reader.LoadDirectory(other).status(), "its directory is damaged");
  other = sealed_[0];
  other.entry.pages += 1;
  ExpectCorruption(reader.LoadDirectory(other).status(), "its directory is damaged");
}

TEST_F(BlockReaderTest, OnlyStagedBlocksHaveAPlacement) {
  BlockReader reader = Reader();
  EXPECT_EQ(reader.LoadPlacement(sealed_[0]).value(), nullptr);
  EXPECT_EQ(reader.LoadPlacement(fresh_[0]).value(), nullptr);
  const auto placement = reader.LoadPlacement(fresh_[2]).value();
  EXPECT_EQ(placement->serial, Serial{5});
  slab_.RemoveRecord(RecordKey(RecordKind::kPlacement, fresh_[2].id));
  EXPECT_EQ(reader.LoadPlacement(fresh_[2]).value(), placement) << "a reader keeps it";
}

TEST_F(BlockReaderTest, ABlockMayHaveNoListOfTopics) {
  BlockReader reader = Reader();
  const BlockId id = sealed_[0].id;
  slab_.PutRecord(RecordKey(RecordKind::kTopics, id), "some list");
  EXPECT_EQ(reader.LoadTopics(id).value(), "some list");
  slab_.RemoveRecord(RecordKey(RecordKind::kTopics, id));
  EXPECT_EQ(reader.LoadTopics(id).value(), std::nullopt);
}

TEST_F(BlockReaderTest, LoadsTheDeletedRowsOfOneBlock) {
  EXPECT_TRUE(Reader().LoadDeleted(sealed_[0].id).value().empty());
  slab_.PutRecord(DeletedRowsKey(sealed_[0].id, 1), Encode(DeletedRows{2, 5}));
  slab_.PutRecord(DeletedRowsKey(sealed_[0].id, 3), Encode(DeletedRows{0}));
  slab_.PutRecord(DeletedRowsKey(fresh_[0].id, 0), Encode(DeletedRows{4}));
  BlockReader reader = Reader();
  EXPECT_EQ(reader.LoadDeleted(fresh_[0].id).value(), (DeletedByPage{{0, {4}}}));
  EXPECT_EQ(reader.LoadDeleted(sealed_[0].id).value(), (DeletedByPage{{1, {2, 5}}, {3, {0}}}));
  EXPECT_TRUE(reader.LoadDeleted(sealed_[1].id).value().empty());
}

TEST_F(BlockReaderTest, ReadsTheMomentOfItsSnapshot) {
  const rocksdb::Snapshot* snapshot = slab_.db().GetSnapshot();
  slab_.SealAll(SealScope::kClosed);
  slab_.Remove(Request("t/0"));
  {
    BlockReader reader(slab_.Source(snapshot));
    std::size_t fresh = 0;
    ASSERT_TRUE(reader.ForEachFresh([&](const Block&) { return ++fresh > 0; }).ok());
    EXPECT_EQ(fresh, 3U);
    EXPECT_EQ(AllPages(&reader, fresh_[0]).size(), 5U);
    EXPECT_TRUE(reader.LoadDeleted(sealed_[0].id).value().empty());
  }
  slab_.db().ReleaseSnapshot(snapshot);
  EXPECT_TRUE(slab_.Fresh().empty());
}

}  // namespace
}  // namespace topicdb::columnar
